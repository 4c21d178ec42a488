"""Fetching what a ref needs: that commit alone, or everything where it cannot be had alone."""

from __future__ import annotations

import re
import shutil
import socket
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePath
from urllib.parse import urlsplit
from urllib.request import url2pathname

from tasks.core.errors import CommandFailedError, FetchError, LostEditsError, NotOwnedError
from tasks.knowledge.mirrors import apply_mirror
from tasks.system import files, shell
from tasks.system.git import git_command
from tasks.system.git.checkout_state import capture_git_output, hash_local_edits, is_checkout
from tasks.system.git.interrupted_update import (
    repair_interrupted_update,
    save_changes_in_ref,
    track_submodule_update,
)
from tasks.system.git.submodule_updates import update_submodules
from tasks.system.output import print_line

_COMMIT_HASH = re.compile(r"[0-9a-f]{7,40}")


@dataclass(frozen=True)
class Clone:
    """A clone of ours: where it is, of what, and at which ref it is wanted."""

    tree: Path
    url: str
    ref: str
    submodules: bool
    log: PurePath | None
    mirrors: Mapping[str, str] = field(default_factory=dict)

    @property
    def request_line(self) -> str:
        """What is asked for, in one line."""
        return f"{self.url} {self.ref} submodules={self.submodules}"

    def run_git(self, *args: str, what: str) -> None:
        """Run a git command in the clone."""
        local = git_command.is_local_url(self.url)
        shell.run_command(
            git_command.build_git_command(
                *args, what=what, at=self.tree, mirrors=self.mirrors, log=self.log, local=local
            )
        )

    def write_config(self, key: str, value: str) -> None:
        """Remember something in the clone's configuration."""
        self.run_git("config", f"torchyard.{key}", value, what="note the checkout")

    def read_config(self, key: str) -> str:
        """What was remembered, "" where nothing was."""
        return capture_git_output(
            self.tree, "config", "--default", "", "--get", f"torchyard.{key}"
        ).strip()

    def resolve_commit(self, name: str) -> str:
        """The commit that a name stands for here, "" where it stands for none."""
        try:
            found = capture_git_output(
                self.tree, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"
            )
        except CommandFailedError:
            return ""
        return found.strip()


def fetch_ref(clone: Clone) -> str:
    """Fetch the ref alone, or everything where the server or the kind of ref does not allow it."""
    if clone.ref.startswith("-"):
        raise FetchError(f'"{clone.ref}" is not a ref')
    whole = _COMMIT_HASH.fullmatch(clone.ref)
    if whole and clone.resolve_commit(clone.ref).startswith(clone.ref):
        return clone.resolve_commit(clone.ref)
    try:
        git_command.retry_git_action(clone.url, lambda: _fetch_single_ref(clone))
        return clone.resolve_commit("FETCH_HEAD")
    except CommandFailedError as error:
        if "remote ref" in error.output and not whole:
            raise _build_missing_ref_error(clone, error.location) from error
    return _fetch_all_refs(clone)


def _fetch_single_ref(clone: Clone) -> None:
    # a depth given to a clone that has its history would cut that history off
    depth = () if clone.resolve_commit("HEAD") and not _is_shallow(clone) else ("--depth", "1")
    argv = ("fetch", "--quiet", "--no-tags", "--no-recurse-submodules", *depth, "--", "origin")
    clone.run_git(*argv, clone.ref, what=f"fetch {clone.ref}")


def _fetch_all_refs(clone: Clone) -> str:
    unshallow = ("--unshallow",) if _is_shallow(clone) else ()
    argv = ("fetch", "--quiet", "--tags", "--no-recurse-submodules", *unshallow, "--", "origin")
    try:
        git_command.retry_git_action(
            clone.url, lambda: clone.run_git(*argv, what=f"fetch {clone.url}")
        )
    except CommandFailedError as error:
        raise git_command.build_fetch_error(clone.url, error) from error
    found = clone.resolve_commit(f"origin/{clone.ref}") or clone.resolve_commit(clone.ref)
    if not found:
        raise _build_missing_ref_error(clone, str(clone.log or ""))
    return found


def _is_shallow(clone: Clone) -> bool:
    return capture_git_output(clone.tree, "rev-parse", "--is-shallow-repository").strip() == "true"


def _build_missing_ref_error(clone: Clone, where: str) -> FetchError:
    return FetchError(
        f'{clone.url} has no ref "{clone.ref}"',
        location=where,
        hint=f"correct ref in the settings; what there is tells: git ls-remote -- {clone.url}",
    )


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
        git_command.guard_local_edits(
            clone.tree, lambda: clone.run_git(*argv, what=f"check out {clone.ref}")
        )
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
        raise git_command.build_lost_edits_error(
            clone.tree, f"there are uncommitted edits, which checking out {clone.ref} would lose"
        )


# A submodule's: its index and its logs are those of the other work tree
_EXCLUDED_FILES = ("index", "logs", "hooks", "*.lock", "FETCH_HEAD", "ORIG_HEAD", "tmp_*")


def copy_reference_clone(dest: PurePath, url: str, others: Iterable[PurePath]) -> str:
    """Make `dest` a repository, without a checkout, that holds the objects of the first of `others`
    that is a finished clone of `url`, its submodules included. Which that was; "" where there is
    none, or `dest` is there already.
    """
    if Path(dest).exists():
        return ""
    near = next((Path(other) for other in others if _is_finished_clone(other, url)), None)
    if near is None:
        return ""
    landing = Path(dest).with_name(f".{Path(dest).name}.seed")
    files.create_owned_folder(landing.parent)
    files.remove_owned(landing)  # of a run that was killed
    landing.mkdir()
    try:
        _copy_repository(landing, near / ".git")
        files.replace_path(landing, Path(dest))
    except (OSError, shutil.Error, CommandFailedError):  # it can all be fetched
        files.remove_owned(landing)
        return ""
    return str(near)


def _is_finished_clone(other: PurePath, url: str) -> bool:
    return (
        (Path(other) / ".git").is_dir()
        and is_checkout(other)
        and _read_git_config(other, "remote.origin.url") == url
        and _read_git_config(other, "torchyard.checkout") != ""
    )


def _read_git_config(tree: PurePath, key: str) -> str:
    return capture_git_output(tree, "config", "--default", "", "--get", key).strip()


def _copy_repository(landing: Path, near: Path) -> None:
    """The commit that is checked out there goes into a ref: what it needs is not fetched again."""
    shell.run_command(
        git_command.build_git_command("init", "--quiet", what="make the clone", at=landing)
    )
    for name in ("objects", "modules"):
        if (near / name).is_dir():
            shutil.copytree(
                near / name,
                landing / ".git" / name,
                copy_function=_link_or_copy_object,
                ignore=shutil.ignore_patterns(*_EXCLUDED_FILES),
                dirs_exist_ok=True,
            )
    if (near / "shallow").is_file():
        shutil.copyfile(near / "shallow", landing / ".git" / "shallow")
    head = capture_git_output(near.parent, "rev-parse", "HEAD").strip()
    shell.run_command(
        git_command.build_git_command(
            "update-ref", "refs/torchyard/seed", head, what="make the clone", at=landing
        )
    )


def _link_or_copy_object(source: str, target: str) -> None:
    """Only what git never writes into."""
    if "objects" in Path(source).parts:
        try:
            Path(target).hardlink_to(source)
        except OSError:  # another disk, or one that knows no links
            shutil.copy2(source, target)
    else:
        shutil.copy2(source, target)


def resolve_remote_commit(url: str, ref: str, mirrors: Mapping[str, str]) -> str:
    """The commit of a tag or branch, or HEAD; "" for what the repository has no name for, as a
    commit. Raises `CommandFailedError` where it does not answer.
    """
    asked = git_command.build_git_command(
        *("ls-remote", "--quiet", "--", url, ref, f"{ref}^{{}}"),
        what=f"ask {url} for {ref}",
        mirrors=mirrors,
        local=git_command.is_local_url(url),
    )
    lines = (line.split("\t") for line in shell.capture_output(asked).splitlines() if "\t" in line)
    found = {name: commit for commit, name in lines}
    tag = f"refs/tags/{ref}"
    names = (ref, f"{tag}^{{}}", tag, f"refs/heads/{ref}")
    return next((found[name] for name in names if name in found), "")


def report_newer_commit(url: str, ref: str, locked: str, mirrors: Mapping[str, str]) -> None:
    """Say that the ref has moved on from what torchyard.lock holds, where that is known without
    asking the network.
    """
    if (
        not locked
        or locked.startswith(ref)
        or not git_command.is_local_url(apply_mirror(url, mirrors))
    ):
        return
    try:
        now = resolve_remote_commit(url, ref, mirrors)
    except CommandFailedError:
        return  # the repository may be gone: what is locked is here perhaps
    if now not in ("", locked):
        print_line(f"torchyard.lock holds {ref} at {locked[:7]}; newer: doit lock --update")


_DEFAULT_PORTS = {
    "https": 443,
    "http": 80,
    "ssh": 22,
    "git+ssh": 22,
    "git": 9418,
    "socks5": 1080,
    "socks5h": 1080,
}
_SCP_ADDRESS = re.compile(r"(?:[^@/:]+@)?(?P<host>[^/:]+):")


def is_reachable(url: str, timeout: float = 1.0) -> bool:
    """Whether the URL's host, or its proxy, takes a TCP connection within `timeout` seconds.

    A path on this machine is reachable where it exists.
    """
    if git_command.is_local_url(url):
        return Path(url2pathname(urlsplit(url).path) if url.startswith("file:") else url).exists()
    host, port = resolve_host_port(url)
    return bool(host) and _can_connect(host, port, timeout)


def resolve_host_port(url: str) -> tuple[str, int]:
    """Host and port that a client of `url` connects to first; "" and 0 for no URL of git's."""
    if "://" not in url:
        found = _SCP_ADDRESS.match(url)
        return (found["host"], 22) if found else ("", 0)
    parts = urlsplit(url)
    proxy = _find_proxy(parts.scheme, parts.hostname or "")
    if proxy:
        parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    return parts.hostname or "", parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)


def _find_proxy(scheme: str, host: str) -> str:
    if scheme not in ("http", "https") or urllib.request.proxy_bypass(host):
        return ""
    proxies = urllib.request.getproxies()
    return proxies.get(scheme) or proxies.get("all", "")


@cache
def _can_connect(host: str, port: int, timeout: float) -> bool:
    try:
        with socket.create_connection((host, port), timeout):
            return True
    except OSError:
        return False
