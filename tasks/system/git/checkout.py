"""A clone at a ref, in a folder of ours, taken up where it stopped.

The clone's own configuration remembers what was asked for last (`torchyard.checkout`), so that a
checkout its owner moved or edited afterwards is left alone, and what a checkout was under way to
(`torchyard.pending`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePath

from tasks.core.errors import LostEditsError, NotOwnedError
from tasks.system import files
from tasks.system.git.command import build_lost_edits_error, guard_local_edits
from tasks.system.git.cutoff import repair_interrupted_update, track_submodule_update
from tasks.system.git.fetch import Clone, fetch_ref
from tasks.system.git.halfdone import save_changes_in_ref
from tasks.system.git.state import hash_local_edits, is_checkout
from tasks.system.git.submodules import update_submodules

_GIT_LOCKS = ("index.lock", "shallow.lock", "config.lock", "HEAD.lock")


def is_at_ref(dest: PurePath, url: str, ref: str, submodules: bool = True) -> bool:
    """Whether `clone_at` has nothing to do: this was asked for last, and finished."""
    clone = Clone(Path(dest), url, ref, submodules, None)
    return is_checkout(dest) and clone.read_config("checkout") == clone.request_line


def clone_at_ref(  # noqa: PLR0913, PLR0917 - the caller has each of them apart
    url: str,
    ref: str,
    dest: PurePath,
    submodules: bool = True,
    mirrors: Mapping[str, str] | None = None,
    log: PurePath | None = None,
) -> None:
    """Make `dest` a checkout of `url` at `ref` (tag, branch or commit), unless it was that.

    Only what the ref needs is fetched. Raises `FetchError` where the host does not answer or has no
    such ref, and `LostEditsError` where a person's edits would be lost; the checkout is then as it
    was.
    """
    if is_at_ref(dest, url, ref, submodules):
        return
    clone = Clone(Path(dest), url, ref, submodules, log, mirrors or {})
    _prepare_clone(clone)
    with track_submodule_update(clone.tree):
        _fetch_and_check_out(clone)
    if submodules:
        update_submodules(clone.tree, mirrors=mirrors, log=log)
    clone.write_config("checkout", clone.request_line)


def _fetch_and_check_out(clone: Clone) -> None:
    commit = fetch_ref(clone)
    interrupted = bool(clone.read_config("pending"))
    if interrupted or commit != clone.resolve_commit("HEAD"):
        _protect_local_work(clone, interrupted=interrupted)
        clone.write_config("checkout", "")
        _check_out_commit(clone, commit, interrupted=interrupted)


def _check_out_commit(clone: Clone, commit: str, *, interrupted: bool) -> None:
    clone.write_config("pending", commit)
    force = ("--force",) if interrupted or not clone.resolve_commit("HEAD") else ()
    argv = ("checkout", "--quiet", "--detach", *force, commit, "--")
    try:
        guard_local_edits(clone.tree, lambda: clone.run_git(*argv, what=f"check out {clone.ref}"))
    except LostEditsError:
        clone.write_config(
            "pending", ""
        )  # git refused before it touched anything: this is no interruption
        raise
    clone.write_config("pending", "")


def _prepare_clone(clone: Clone) -> None:
    files.create_owned_folder(clone.tree.parent)
    if clone.tree.exists() and any(clone.tree.iterdir()) and not is_checkout(clone.tree):
        raise NotOwnedError(
            "this folder holds something that is no git checkout",
            location=str(clone.tree),
            hint="move it away, then run the same command again",
        )
    clone.tree.mkdir(exist_ok=True)
    _remove_clone_locks(clone)
    if is_checkout(clone.tree):
        repair_interrupted_update(clone.tree)
    clone.run_git("init", "--quiet", what="make the clone")
    clone.run_git("config", "remote.origin.url", clone.url, what="make the clone")
    fetched = "+refs/heads/*:refs/remotes/origin/*"
    clone.run_git("config", "remote.origin.fetch", fetched, what="make the clone")


def _remove_clone_locks(clone: Clone) -> None:
    """Remove a killed git's locks: they are surely dead only where no checkout finished."""
    folder = clone.tree / ".git"
    if folder.exists() and (not (folder / "config").exists() or not clone.read_config("checkout")):
        for name in _GIT_LOCKS:
            (folder / name).unlink(missing_ok=True)


def _protect_local_work(clone: Clone, *, interrupted: bool) -> None:
    """Refuse over edits; an interrupted checkout looks edited, and is kept in a ref."""
    head = clone.resolve_commit("HEAD")
    if not head:
        return
    clone.run_git("update-ref", f"refs/torchyard/left/{head}", head, what="keep the commit")
    if interrupted:
        save_changes_in_ref(clone.tree)
    elif hash_local_edits(clone.tree, untracked=False):
        raise build_lost_edits_error(
            clone.tree, f"there are uncommitted edits, which checking out {clone.ref} would lose"
        )
