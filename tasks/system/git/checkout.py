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
from tasks.system.git.command import guarded, lost_edits
from tasks.system.git.cutoff import mend, under_way
from tasks.system.git.fetch import Clone, fetch
from tasks.system.git.halfdone import put_aside
from tasks.system.git.state import edits, is_checkout
from tasks.system.git.submodules import update_submodules

_LOCKS = ("index.lock", "shallow.lock", "config.lock", "HEAD.lock")


def is_at(dest: PurePath, url: str, ref: str, submodules: bool = True) -> bool:
    """Whether `clone_at` has nothing to do: this was asked for last, and finished."""
    clone = Clone(Path(dest), url, ref, submodules, None)
    return is_checkout(dest) and clone.noted("checkout") == clone.asked


def clone_at(  # noqa: PLR0913, PLR0917 - the caller has each of them apart
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
    if is_at(dest, url, ref, submodules):
        return
    clone = Clone(Path(dest), url, ref, submodules, log, mirrors or {})
    _open(clone)
    with under_way(clone.tree):
        _bring(clone)
    if submodules:
        update_submodules(clone.tree, mirrors=mirrors, log=log)
    clone.note("checkout", clone.asked)


def _bring(clone: Clone) -> None:
    commit = fetch(clone)
    interrupted = bool(clone.noted("pending"))
    if interrupted or commit != clone.commit("HEAD"):
        _keep_work(clone, interrupted=interrupted)
        clone.note("checkout", "")
        _check_out(clone, commit, interrupted=interrupted)


def _check_out(clone: Clone, commit: str, *, interrupted: bool) -> None:
    clone.note("pending", commit)
    force = ("--force",) if interrupted or not clone.commit("HEAD") else ()
    argv = ("checkout", "--quiet", "--detach", *force, commit, "--")
    try:
        guarded(clone.tree, lambda: clone.git(*argv, what=f"check out {clone.ref}"))
    except LostEditsError:
        clone.note("pending", "")  # git refused before it touched anything: this is no interruption
        raise
    clone.note("pending", "")


def _open(clone: Clone) -> None:
    files.own(clone.tree.parent)
    if clone.tree.exists() and any(clone.tree.iterdir()) and not is_checkout(clone.tree):
        raise NotOwnedError(
            "this folder holds something that is no git checkout",
            where=str(clone.tree),
            todo="move it away, then run the same command again",
        )
    clone.tree.mkdir(exist_ok=True)
    _unlock(clone)
    if is_checkout(clone.tree):
        mend(clone.tree)
    clone.git("init", "--quiet", what="make the clone")
    clone.git("config", "remote.origin.url", clone.url, what="make the clone")
    fetched = "+refs/heads/*:refs/remotes/origin/*"
    clone.git("config", "remote.origin.fetch", fetched, what="make the clone")


def _unlock(clone: Clone) -> None:
    """Remove a killed git's locks: they are surely dead only where no checkout finished."""
    folder = clone.tree / ".git"
    if folder.exists() and (not (folder / "config").exists() or not clone.noted("checkout")):
        for name in _LOCKS:
            (folder / name).unlink(missing_ok=True)


def _keep_work(clone: Clone, *, interrupted: bool) -> None:
    """Refuse over edits; an interrupted checkout looks edited, and is kept in a ref."""
    head = clone.commit("HEAD")
    if not head:
        return
    clone.git("update-ref", f"refs/torchyard/left/{head}", head, what="keep the commit")
    if interrupted:
        put_aside(clone.tree)
    elif edits(clone.tree, untracked=False):
        raise lost_edits(
            clone.tree, f"there are uncommitted edits, which checking out {clone.ref} would lose"
        )
