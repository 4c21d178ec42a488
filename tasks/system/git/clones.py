"""Clone repositories and fetch refs: only the commit of a ref, or the full history if necessary."""

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
    """A managed clone: its folder, its URL and the requested ref."""

    tree: Path
    url: str
    ref: str
    submodules: bool
    log: PurePath | None
    mirrors: Mapping[str, str] = field(default_factory=dict)

    @property
    def request_line(self) -> str:
        """Return the requested URL, ref and submodules in one line."""
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
        """Store a value in the clone's git configuration."""
        self.run_git("config", f"torchyard.{key}", value, what="note the checkout")

    def read_config(self, key: str) -> str:
        """Return a stored value, "" if it is not set."""
        return capture_git_output(
            self.tree, "config", "--default", "", "--get", f"torchyard.{key}"
        ).strip()

    def resolve_commit(self, name: str) -> str:
        """Return the commit that a name refers to in the clone, "" if it refers to none."""
        try:
            output = capture_git_output(
                self.tree, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"
            )
        except CommandFailedError:
            return ""
        return output.strip()


def fetch_ref(clone: Clone) -> str:
    """Fetch only the ref and return its commit.

    Fetch everything if the server or the kind of ref does not allow that.
    """
    if clone.ref.startswith("-"):
        raise FetchError(f'"{clone.ref}" is not a ref')
    full_hash = _COMMIT_HASH.fullmatch(clone.ref)
    if full_hash and clone.resolve_commit(clone.ref).startswith(clone.ref):
        return clone.resolve_commit(clone.ref)
    try:
        git_command.retry_git_action(clone.url, lambda: _fetch_single_ref(clone))
        return clone.resolve_commit("FETCH_HEAD")
    except CommandFailedError as error:
        if "remote ref" in error.output and not full_hash:
            raise _build_missing_ref_error(clone, error.location) from error
    return _fetch_all_refs(clone)


def _fetch_single_ref(clone: Clone) -> None:
    # a depth would remove the history of a clone that has its full history
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
    commit = clone.resolve_commit(f"origin/{clone.ref}") or clone.resolve_commit(clone.ref)
    if not commit:
        raise _build_missing_ref_error(clone, str(clone.log or ""))
    return commit


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
    """Return True if the last request was the same and finished: nothing is left to do."""
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
    """Make `dest` a checkout of `url` at `ref` (tag, branch or commit), unless it is one already.

    Only what the ref needs is fetched. Raises `FetchError` if the host does not answer or has no
    such ref, and `LostEditsError` if the user's edits would be lost; the checkout is then
    unchanged.
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
        )  # git refused before it changed anything: not an interruption
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
    """Remove the locks of a killed git.

    They are certainly stale only if no checkout has finished in this clone.
    """
    folder = clone.tree / ".git"
    if folder.exists() and (not (folder / "config").exists() or not clone.read_config("checkout")):
        for name in _GIT_LOCKS:
            (folder / name).unlink(missing_ok=True)


def _protect_local_work(clone: Clone, *, interrupted: bool) -> None:
    """Raise `LostEditsError` if there are uncommitted edits; save an interrupted checkout in a ref.

    An interrupted checkout looks edited, so its changes are saved instead of refused.
    """
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


# Of a submodule: its index and its logs belong to the other work tree
_EXCLUDED_FILES = ("index", "logs", "hooks", "*.lock", "FETCH_HEAD", "ORIG_HEAD", "tmp_*")


def copy_reference_clone(dest: PurePath, url: str, others: Iterable[PurePath]) -> str:
    """Create a repository from a finished local clone of `url`, without a checkout.

    Copy the objects of the first of `others` that is a finished clone of `url`, its submodules
    included, to `dest`. Return the path of that clone; "" without one, or if `dest` exists.
    """
    if Path(dest).exists():
        return ""
    reference = next((Path(other) for other in others if _is_finished_clone(other, url)), None)
    if reference is None:
        return ""
    temporary = Path(dest).with_name(f".{Path(dest).name}.seed")
    files.create_owned_folder(temporary.parent)
    files.remove_owned(temporary)  # of a run that was killed
    temporary.mkdir()
    try:
        _copy_repository(temporary, reference / ".git")
        files.replace_path(temporary, Path(dest))
    except (OSError, shutil.Error, CommandFailedError):  # everything can be fetched instead
        files.remove_owned(temporary)
        return ""
    return str(reference)


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
    """Copy the objects and submodules of a clone.

    Store the commit that is checked out there in a ref, so that its objects are not fetched again.
    """
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
    """Hard-link object files, which git never modifies; copy all other files."""
    if "objects" in Path(source).parts:
        try:
            Path(target).hardlink_to(source)
        except OSError:  # another disk, or a file system without hard links
            shutil.copy2(source, target)
    else:
        shutil.copy2(source, target)


def resolve_remote_commit(url: str, ref: str, mirrors: Mapping[str, str]) -> str:
    """Return the commit of a tag, a branch or HEAD; "" if the repository has no ref with that name.

    A commit hash has no ref either. Raises `CommandFailedError` if the repository does not answer.
    """
    command = git_command.build_git_command(
        *("ls-remote", "--quiet", "--", url, ref, f"{ref}^{{}}"),
        what=f"ask {url} for {ref}",
        mirrors=mirrors,
        local=git_command.is_local_url(url),
    )
    lines = (
        line.split("\t") for line in shell.capture_output(command).splitlines() if "\t" in line
    )
    commits = {name: commit for commit, name in lines}
    tag = f"refs/tags/{ref}"
    names = (ref, f"{tag}^{{}}", tag, f"refs/heads/{ref}")
    return next((commits[name] for name in names if name in commits), "")


def report_newer_commit(url: str, ref: str, locked: str, mirrors: Mapping[str, str]) -> None:
    """Print that the ref has a newer commit than torchyard.lock.

    Only local repositories are checked: the network is not used.
    """
    if (
        not locked
        or locked.startswith(ref)
        or not git_command.is_local_url(apply_mirror(url, mirrors))
    ):
        return
    try:
        newest = resolve_remote_commit(url, ref, mirrors)
    except CommandFailedError:
        return  # the repository may be gone, while the locked commit may be available locally
    if newest not in ("", locked):
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
    """Return True if the URL's host, or its proxy, accepts a TCP connection in `timeout` seconds.

    A path on this machine is reachable if it exists.
    """
    if git_command.is_local_url(url):
        return Path(url2pathname(urlsplit(url).path) if url.startswith("file:") else url).exists()
    host, port = resolve_host_port(url)
    return bool(host) and _can_connect(host, port, timeout)


def resolve_host_port(url: str) -> tuple[str, int]:
    """Return host and port that a client of `url` connects to first.

    ("", 0) if git does not accept `url` as a URL.
    """
    if "://" not in url:
        address = _SCP_ADDRESS.match(url)
        return (address["host"], 22) if address else ("", 0)
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
