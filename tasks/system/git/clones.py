"""Clone repositories, fetch refs (the full history only if necessary) and update submodules."""

import contextlib
import re
import shutil
import socket
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path, PurePath
from urllib.parse import urlsplit
from urllib.request import url2pathname

from tasks.core.errors import CommandFailedError, FetchError, LostEditsError, NotOwnedError
from tasks.knowledge.mirrors import apply_mirror
from tasks.system import files, shell
from tasks.system.git import checkout_state, git_command, interrupted_update
from tasks.system.output import print_line, print_warning

_COMMIT_HASH = re.compile(r"[0-9a-f]{7,40}")
_CLONE_RETRY = re.compile(r"Failed to clone '(?P<what>.*)'\. Retry scheduled")


@dataclass(frozen=True)
class Clone:
    """A managed clone: the repository `url`, checked out at `ref` in the folder `tree`."""

    tree: Path
    url: str
    ref: str
    submodules: bool
    log: PurePath | None
    mirrors: Mapping[str, str] = field(default_factory=dict)

    @property
    def request_line(self) -> str:
        """The requested URL, ref and submodules in one line."""
        return f"{self.url} {self.ref} submodules={self.submodules}"

    def run_git(self, *args: str, what: str) -> None:
        """Run a git command in the clone."""
        local = git_command.is_local_url(self.url)
        command = git_command.build_git_command(
            *args, what=what, at=self.tree, mirrors=self.mirrors, log=self.log, local=local
        )
        shell.run_command(command)

    def write_config(self, key: str, value: str) -> None:
        """Store a value in the clone's git configuration."""
        self.run_git("config", f"torchyard.{key}", value, what="record the checkout")

    def read_config(self, key: str) -> str:
        """Return a value that `write_config` stored; "" if it is not set."""
        return _read_git_config(self.tree, f"torchyard.{key}")

    def resolve_commit(self, name: str) -> str:
        """Return the commit that a name refers to in the clone; "" if it refers to none."""
        argv = ("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        try:
            return checkout_state.capture_git_output(self.tree, *argv).strip()
        except CommandFailedError:
            return ""


def _fetch_ref(clone: Clone) -> str:
    """Fetch the ref and return its commit. If the server refuses, fetch all refs."""
    if clone.ref.startswith("-"):
        raise FetchError(f'"{clone.ref}" is not a ref: a ref cannot start with "-"')
    full_hash = _COMMIT_HASH.fullmatch(clone.ref)
    if full_hash and (commit := clone.resolve_commit(clone.ref)).startswith(clone.ref):
        return commit
    # --depth would truncate a clone that has its full history
    depth = () if clone.resolve_commit("HEAD") and not _is_shallow(clone) else ("--depth", "1")
    argv = ("fetch", "--quiet", "--no-tags", "--no-recurse-submodules", *depth, "--", "origin")
    what = f"fetch {clone.ref}"
    try:
        git_command.retry_git_action(clone.url, lambda: clone.run_git(*argv, clone.ref, what=what))
        return clone.resolve_commit("FETCH_HEAD")
    except CommandFailedError as error:
        if "remote ref" in error.output and not full_hash:
            raise _build_missing_ref_error(clone, error.location) from error
    unshallow = ("--unshallow",) if _is_shallow(clone) else ()
    argv = ("fetch", "--quiet", "--tags", "--no-recurse-submodules", *unshallow, "--", "origin")
    what = f"fetch {clone.url}"
    try:
        git_command.retry_git_action(clone.url, lambda: clone.run_git(*argv, what=what))
    except CommandFailedError as error:
        raise git_command.build_fetch_error(clone.url, error) from error
    commit = clone.resolve_commit(f"origin/{clone.ref}") or clone.resolve_commit(clone.ref)
    if not commit:
        raise _build_missing_ref_error(clone, str(clone.log or ""))
    return commit


def _is_shallow(clone: Clone) -> bool:
    return (
        checkout_state.capture_git_output(
            clone.tree, "rev-parse", "--is-shallow-repository"
        ).strip()
        == "true"
    )


def _build_missing_ref_error(clone: Clone, where: str) -> FetchError:
    hint = f"correct ref in the settings; to list the refs, run: git ls-remote -- {clone.url}"
    return FetchError(f'{clone.url} has no ref "{clone.ref}"', location=where, hint=hint)


def is_at_ref(dest: PurePath, url: str, ref: str, submodules: bool = True) -> bool:
    """Return True if `dest` has a finished checkout for this `url`, `ref` and `submodules`."""
    clone = Clone(Path(dest), url, ref, submodules, None)
    return checkout_state.is_checkout(dest) and clone.read_config("checkout") == clone.request_line


def clone_at_ref(  # noqa: PLR0913, PLR0917 - callers pass separate settings
    url: str,
    ref: str,
    dest: PurePath,
    submodules: bool = True,
    mirrors: Mapping[str, str] | None = None,
    log: PurePath | None = None,
) -> None:
    """Check out `ref` (a tag, branch or commit) of the repository `url` in the folder `dest`.

    Raises `FetchError` if the host does not answer or has no such ref. If the user's edits would be
    lost, raises `LostEditsError` and leaves the checkout unchanged.
    """
    if is_at_ref(dest, url, ref, submodules):
        return
    clone = Clone(Path(dest), url, ref, submodules, log, mirrors or {})
    _prepare_clone(clone)
    with interrupted_update.track_submodule_update(clone.tree):
        commit, head = _fetch_ref(clone), clone.resolve_commit("HEAD")
        if (interrupted := bool(clone.read_config("pending"))) or commit != head:
            _check_out_commit(clone, commit, head, interrupted=interrupted)
    if submodules:
        update_submodules(clone.tree, mirrors=mirrors, log=log)
    clone.write_config("checkout", clone.request_line)


def _check_out_commit(clone: Clone, commit: str, head: str, *, interrupted: bool) -> None:
    """Check out `commit`; `head` is the current commit, "" if there is none.

    Raises `LostEditsError` if there are uncommitted edits. Changes by an `interrupted` checkout
    are saved in a ref and overwritten instead.
    """
    if head:
        clone.run_git("update-ref", f"refs/torchyard/left/{head}", head, what="keep the commit")
    if head and interrupted:
        interrupted_update.save_changes_in_ref(clone.tree)
    elif head and checkout_state.hash_local_edits(clone.tree, untracked=False):
        message = f"checking out {clone.ref} would overwrite your uncommitted edits"
        raise git_command.build_lost_edits_error(clone.tree, message)
    clone.write_config("checkout", "")
    clone.write_config("pending", commit)
    force = ("--force",) if interrupted or not head else ()
    argv = ("checkout", "--quiet", "--detach", *force, commit, "--")
    try:
        what = f"check out {clone.ref}"
        git_command.guard_local_edits(clone.tree, lambda: clone.run_git(*argv, what=what))
    except LostEditsError:  # git refused before it changed anything: not an interruption
        clone.write_config("pending", "")
        raise
    clone.write_config("pending", "")


def _prepare_clone(clone: Clone) -> None:
    files.create_owned_folder(clone.tree.parent)
    if (
        clone.tree.exists()
        and files.has_content(clone.tree)
        and not checkout_state.is_checkout(clone.tree)
    ):
        message = "this folder is not empty and is not a git checkout"
        hint = "move the folder away, then run the same command again"
        raise NotOwnedError(message, location=str(clone.tree), hint=hint)
    clone.tree.mkdir(exist_ok=True)
    folder = clone.tree / ".git"
    # The locks of a killed git are certainly stale only if no checkout has finished in this clone
    if folder.exists() and (not (folder / "config").exists() or not clone.read_config("checkout")):
        for name in ("index.lock", "shallow.lock", "config.lock", "HEAD.lock"):
            (folder / name).unlink(missing_ok=True)
    if checkout_state.is_checkout(clone.tree):
        interrupted_update.repair_interrupted_update(clone.tree)
    refs = "+refs/heads/*:refs/remotes/origin/*"
    clone.run_git("init", "--quiet", what="create the clone")
    clone.run_git("config", "remote.origin.url", clone.url, what="create the clone")
    clone.run_git("config", "remote.origin.fetch", refs, what="create the clone")


# Files of a repository or its submodules that are not copied: they belong to its work tree
_EXCLUDED_FILES = ("index", "logs", "hooks", "*.lock", "FETCH_HEAD", "ORIG_HEAD", "tmp_*")


def copy_reference_clone(dest: PurePath, url: str, others: Iterable[PurePath]) -> str:
    """Create the repository `dest` from a local clone of `url`, but check out nothing.

    The first finished clone in `others` is copied, including its submodules. Returns the path of
    that clone, "" if `dest` exists or the copy fails.
    """
    folder = Path(dest)
    clones = (tree for tree in map(Path, others) if (tree / ".git").is_dir())
    same = (tree for tree in clones if _read_git_config(tree, "remote.origin.url") == url)
    finished_clones = (tree for tree in same if _read_git_config(tree, "torchyard.checkout"))
    if folder.exists() or not (reference := next(finished_clones, None)):
        return ""
    return str(reference) if copy_repository(folder, reference) else ""


def remove_incomplete_repository(tree: PurePath) -> None:
    """Remove a folder of torchyard that has only the start of a repository, of a killed git."""
    folder = Path(tree)
    if not folder.is_dir() or [one.name for one in folder.iterdir()] != [".git"]:
        return
    try:
        checkout_state.capture_git_output(tree, "rev-parse", "--git-dir")
    except CommandFailedError:
        files.remove_owned(tree)


def copy_repository(dest: Path, reference: Path) -> bool:
    """Create the repository `dest` with the objects of another one; return False if this fails."""
    temporary = dest.with_name(f".{dest.name}.seed")
    files.create_owned_folder(temporary.parent)
    files.remove_owned(temporary)  # left by a killed run
    temporary.mkdir()
    try:
        copy_repository_files(temporary, reference / ".git")
        files.replace_path(temporary, dest)
    except (OSError, shutil.Error, CommandFailedError):  # git can fetch the objects instead
        files.remove_owned(temporary)
        return False
    return True


def _read_git_config(tree: PurePath, key: str) -> str:
    return checkout_state.capture_git_output(tree, "config", "--default", "", "--get", key).strip()


def copy_repository_files(dest: Path, source: Path) -> None:
    """Copy a git folder's objects to the new repository `dest`, with a ref to its HEAD commit."""

    def copy_file(original: str, target: str) -> None:
        is_object = "objects" in Path(original).parts  # git never modifies these files
        (files.link_or_copy if is_object else shutil.copy2)(original, target)

    what, git_folder = "create the clone", dest / ".git"
    checkout_state.capture_git_output(dest, "init", "--quiet", what=what)
    ignore = shutil.ignore_patterns(*_EXCLUDED_FILES)
    copy_tree = partial(shutil.copytree, ignore=ignore, copy_function=copy_file)
    for name in ("objects", "modules"):
        if (source / name).is_dir():
            copy_tree(source / name, git_folder / name, dirs_exist_ok=True)
    if (source / "shallow").is_file():
        shutil.copyfile(source / "shallow", git_folder / "shallow")
    head = checkout_state.capture_git_output(source.parent, "rev-parse", "HEAD").strip()
    checkout_state.capture_git_output(dest, "update-ref", "refs/torchyard/seed", head, what=what)


def resolve_remote_commit(url: str, ref: str, mirrors: Mapping[str, str]) -> str:
    """Return the commit of a remote tag, branch or HEAD; "" if the remote has no such ref."""
    argv = ("ls-remote", "--quiet", "--", url, ref, f"{ref}^{{}}")
    what, local = f"ask {url} for {ref}", git_command.is_local_url(url)
    command = git_command.build_git_command(*argv, what=what, mirrors=mirrors, local=local)
    lines = map(str.split, shell.capture_output(command).splitlines())
    commits = {name: commit for commit, name in lines}
    tag = f"refs/tags/{ref}"
    names = (ref, f"{tag}^{{}}", tag, f"refs/heads/{ref}")
    return next((commits[name] for name in names if name in commits), "")


def report_newer_commit(url: str, ref: str, locked: str, mirrors: Mapping[str, str]) -> None:
    """Print a line if `ref` of a local repository is no longer at the commit `locked`."""
    is_local = git_command.is_local_url(apply_mirror(url, mirrors))
    if not locked or locked.startswith(ref) or not is_local:
        return
    # The repository may be gone, while the locked commit may be available locally
    with contextlib.suppress(CommandFailedError):
        if resolve_remote_commit(url, ref, mirrors) not in ("", locked):
            print_line(
                f"{ref} has a newer commit than torchyard.lock ({locked[:7]}); "
                "to update the lock, run: doit lock --update"
            )


_DEFAULT_PORTS = {"https": 443, "http": 80, "ssh": 22, "git+ssh": 22, "git": 9418}
_DEFAULT_PORTS |= {"socks5": 1080, "socks5h": 1080}
_SCP_ADDRESS = re.compile(r"(?:[^@/:]+@)?(?P<host>[^/:]+):")


def is_reachable(url: str, timeout: float = 1.0) -> bool:
    """Return True if `url` is an existing path, or if its host or proxy accepts a connection."""
    if git_command.is_local_url(url):
        return Path(url2pathname(urlsplit(url).path) if url.startswith("file:") else url).exists()
    host, port = resolve_host_port(url)
    return bool(host) and _can_connect(host, port, timeout)


def resolve_host_port(url: str) -> tuple[str, int]:
    """Return the host and port of a git URL or of its proxy, ("", 0) if the URL is invalid."""
    if "://" not in url:
        address = _SCP_ADDRESS.match(url)
        return (address["host"], 22) if address else ("", 0)
    parts, proxies = urlsplit(url), urllib.request.getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all", "")
    is_http = parts.scheme in ("http", "https")
    if is_http and proxy and not urllib.request.proxy_bypass(parts.hostname or ""):
        parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    return parts.hostname or "", parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)


@cache
def _can_connect(host: str, port: int, timeout: float) -> bool:
    try:
        with socket.create_connection((host, port), timeout):
            return True
    except OSError:
        return False


def list_stale_submodules(tree: PurePath, seen: str) -> tuple[str, ...]:
    """Return outdated submodules: missing, partly updated, or as in the previous commit `seen`."""
    if not (Path(tree) / ".gitmodules").exists():
        return ()
    entries: list[str] = []
    with contextlib.suppress(CommandFailedError):  # that commit may be gone
        entries = checkout_state.list_git_entries(tree, "ls-tree", "-r", seen) if seen else []
    pairs = (entry.partition("\t") for entry in entries if entry.startswith("160000 "))
    previous = {path: head.split()[2] for head, _, path in pairs}
    stale = [
        path
        for flag, path, commit in checkout_state.list_submodule_status(tree)
        if flag == "-" or (flag == "+" and previous.get(path) == commit)
    ]
    note = interrupted_update.read_update_note(tree)
    unfinished = interrupted_update.exclude_user_changes(tree, note.paths) if note else ()
    return tuple(dict.fromkeys((*unfinished, *stale)))


def list_changed_submodules(tree: PurePath) -> tuple[str, ...]:
    """Return the submodules that are not at the commit recorded in the tree."""
    return tuple(
        path for flag, path, _ in checkout_state.list_submodule_status(tree) if flag == "+"
    )


def update_submodules(
    tree: PurePath,
    paths: Sequence[str] = (),
    *,
    mirrors: Mapping[str, str] | None = None,
    log: PurePath | None = None,
) -> None:
    """Check out the submodules `paths` (default: all) recursively. Keep the user's changes."""
    if not (Path(tree) / ".gitmodules").exists():
        return
    requested = tuple(paths) or tuple(
        path for _, path, _ in checkout_state.list_submodule_status(tree)
    )
    updatable = interrupted_update.exclude_user_changes(tree, requested)
    if user_changed := sorted(set(requested) - set(updatable)):
        print_warning(
            "you checked out other commits after an interrupted update, so torchyard does not "
            f"update these submodules: {', '.join(user_changed)}"
        )
    with interrupted_update.track_submodule_update(tree, updatable):
        if updatable:
            _run_submodule_update(tree, updatable if user_changed else paths, mirrors, log)


def _run_submodule_update(
    tree: PurePath, paths: Sequence[str], mirrors: Mapping[str, str] | None, log: PurePath | None
) -> None:
    local = git_command.is_local_url(_read_git_config(tree, "remote.origin.url"))
    where, build_command = ("--", *paths) if paths else (), git_command.build_git_command

    def report_retry(line: str) -> None:  # git retries a clone once
        if retry := _CLONE_RETRY.match(line):
            print_line(f"{retry['what'].rpartition('/')[2]}: the clone failed; git tries again")

    def update_at_depth(*depth: str) -> None:
        argv = ("submodule", "update", "--init", "--recursive", "--jobs", "8", *depth, *where)
        what = "fetch the submodules"
        step = build_command(*argv, what=what, at=tree, mirrors=mirrors, log=log, local=local)
        git_command.guard_local_edits(tree, lambda: shell.run_command(step, report_retry))

    sync = ("submodule", "--quiet", "sync", "--recursive", *where)
    shell.run_command(build_command(*sync, what="read the submodules' URLs", at=tree, log=log))
    # A server may refuse a commit that no branch points to, or any shallow clone
    with contextlib.suppress(CommandFailedError):
        git_command.retry_git_action("a submodule", lambda: update_at_depth("--depth", "1"))
        return
    try:
        git_command.retry_git_action("a submodule", update_at_depth)
    except CommandFailedError as error:
        raise git_command.build_fetch_error("a submodule", error) from error
