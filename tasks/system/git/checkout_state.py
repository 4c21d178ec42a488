"""Read the state of a checkout: commit, submodules, local changes and untracked files.

The untracked files are cached: a new or removed file changes the modification time of its folder.
git's untracked cache relies on the same, but it is stored in the user's index; this cache is in a
managed file. The tree is walked again if a folder, the index, the commit or .git/info/exclude
changed, or if a time stamp is too recent to be reliable.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path, PurePath, PurePosixPath

from tasks.core.errors import CommandFailedError, MissingToolError
from tasks.system import files, shell
from tasks.system.files import write_atomic
from tasks.system.git.git_command import build_git_command

_ABSENT = "-"
_CLOCK_RESOLUTION_NS = 2_000_000_000  # ns: the coarsest clock resolution of a file system
GitQuery = Callable[..., str]  # `capture_git_output` for the tree


@dataclass(frozen=True)
class _UntrackedCache:
    """The untracked files that a walk found, and the time stamps that keep them valid."""

    commit: str
    git: list[str]
    folders: dict[str, str]
    names: list[str]


def list_untracked_files(
    ask: GitQuery, tree: PurePath, place: Path, commit: str, kept: PurePath | None
) -> list[str]:
    """Return the paths of the untracked files.

    `ask` runs a git command in the tree, `place` is the repository's git folder, `kept` is the
    managed cache file. Without `kept`, or if its folder does not exist, the tree is walked each
    time.
    """
    cached = _read_cache(kept)
    if (
        cached
        and cached.commit == commit
        and cached.git == _stamp_git_files(place)
        and _is_unchanged(tree, cached)
    ):
        return cached.names
    scan_time = time.time_ns()
    output = ask("ls-files", "-z", "--others", "--exclude-standard")
    names = [name for name in output.split("\0") if name]
    if kept and commit:
        tracked_folders = ask("ls-tree", "-r", "-d", "-z", "--name-only", commit).split("\0")
        stamps = _stamp_folders(
            tree, dict.fromkeys([*tracked_folders, *_list_parent_folders(names)]), scan_time
        )
        git = _stamp_git_files(place, scan_time)
        if all(stamps.values()) and all(git):
            _write_cache(kept, _UntrackedCache(commit, git, stamps, names))
    return names


def _stamp_folders(tree: PurePath, folders: Iterable[str], started: int) -> dict[str, str]:
    """Return the time stamps of the folders and of their .gitignore files."""
    stamps = {}
    for folder in folders:
        stamps[folder] = _stamp_path(f"{tree}/{folder}", started)
        ignored = f"{folder}/.gitignore"
        if (stamp := _stamp_path(f"{tree}/{ignored}", started)) != _ABSENT:
            stamps[ignored] = stamp
    return stamps


def _list_parent_folders(names: Iterable[str]) -> Iterable[str]:
    """Return every parent folder of the files, the tree itself ("") included."""
    for name in names:
        yield from (str(folder) for folder in PurePosixPath(name).parents if str(folder) != ".")
    yield ""


def _stamp_git_files(place: Path, started: int | None = None) -> list[str]:
    return [_stamp_path(str(place / name), started) for name in ("index", "info/exclude")]


def _is_unchanged(tree: PurePath, seen: _UntrackedCache) -> bool:
    return all(_stamp_path(f"{tree}/{folder}") == stamp for folder, stamp in seen.folders.items())


def _stamp_path(path: str, started: int | None = None) -> str:
    """Return the time stamp of a path, "-" if it does not exist.

    Return "" if the path could still change after the walk that `started` and keep its time stamp.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 - five times faster, for thousands of folders
    except OSError:
        return _ABSENT
    if started is not None and started - status.st_mtime_ns < _CLOCK_RESOLUTION_NS:
        return ""
    return f"{status.st_mtime_ns} {status.st_ino}"


def _read_cache(kept: PurePath | None) -> _UntrackedCache | None:
    try:
        cache = (
            _UntrackedCache(**json.loads(Path(kept).read_text(encoding="utf-8"))) if kept else None
        )
    except (OSError, ValueError, TypeError):
        return None
    is_valid = cache and isinstance(cache.folders, dict) and isinstance(cache.names, list)
    return cache if is_valid else None


def _write_cache(kept: PurePath, seen: _UntrackedCache) -> None:
    if Path(kept).parent.is_dir():
        write_atomic(kept, json.dumps(asdict(seen)))


@dataclass(frozen=True)
class GitState:
    """The state of a checkout.

    `submodules` maps paths to the commits that are checked out there; `edits` is "" when clean.
    """

    commit: str
    submodules: Mapping[str, str]
    edits: str


def is_checkout(path: PurePath) -> bool:
    """Return True if `path` is the top of a git work tree."""
    return (Path(path) / ".git").exists()


def read_git_state(tree: PurePath, kept: PurePath | None = None) -> GitState:
    """Return the state of a checkout without writing to the tree; equal states mean equal content.

    One git command lists the local changes by git's index. The submodules and the untracked files
    are read at the same time. With `kept`, a managed cache file, the untracked files need no walk
    if no folder changed.
    """
    with ThreadPoolExecutor(max_workers=2) as executor:
        untracked = executor.submit(_hash_untracked_files, tree, kept)
        submodules = executor.submit(lambda: dict(list_checked_out_submodules(tree)))
        commit, changed = _read_tracked_status(tree)
        lines = [*changed, *untracked.result()]
        return GitState(commit, submodules.result(), _hash_lines(lines))


def is_clean(folder: PurePath) -> bool:
    """Return True if a folder is a checkout without local changes; False if git cannot tell."""
    try:
        return is_checkout(folder) and not read_git_state(folder).edits
    except (CommandFailedError, MissingToolError):
        return False


def capture_git_output(tree: PurePath, *args: str, what: str = "read the checkout") -> str:
    """Return the output of a short git command."""
    return shell.capture_output(build_git_command(*args, what=f"{what} {tree}", at=tree))


def read_commit_time(tree: PurePath) -> int:
    """Return the time of the checked-out commit, in seconds since 1970; 0 without a commit."""
    try:
        timestamp = capture_git_output(
            tree, "show", "-s", "--no-show-signature", "--format=%ct", "HEAD"
        )
    except CommandFailedError:
        return 0
    return int(timestamp)


def list_submodule_status(tree: PurePath) -> Iterator[tuple[str, str, str]]:
    """Return flag, path and commit of every submodule.

    The flag is "-" for a submodule that is not checked out, "+" for another commit than the
    recorded one and " " for the recorded commit.

    Equivalent to `git submodule status`, which starts several processes for each submodule. This
    function runs git twice for each repository and reads the commits that are checked out from
    files.
    """
    for path, recorded in _read_index_submodules(tree).items():
        inner = Path(tree) / path
        head = read_head_commit(inner) if is_checkout(inner) else ""
        yield ("-" if not head else " " if head == recorded else "+"), path, head or recorded


def _read_index_submodules(tree: PurePath) -> dict[str, str]:
    """Return the submodules in git's index, path → commit."""
    paths = _read_gitmodules_paths(tree)
    if not paths:
        return {}
    output = capture_git_output(tree, "ls-files", "--stage", "-z", "--", *paths)
    entries = (entry.partition("\t") for entry in output.split("\0"))
    return {path: head.split()[1] for head, _, path in entries if head.startswith("160000 ")}


def _read_gitmodules_paths(tree: PurePath) -> list[str]:
    """Return the submodule paths in .gitmodules."""
    if not (Path(tree) / ".gitmodules").exists():
        return []
    try:
        output = capture_git_output(
            tree, "config", "-z", "--file", ".gitmodules", "--get-regexp", r"\.path$"
        )
    except CommandFailedError:
        return []
    return [entry.partition("\n")[2] for entry in output.split("\0") if entry]


def find_git_folder(tree: Path) -> Path:
    """Return the git folder of a repository: for a submodule or a worktree it is elsewhere."""
    link = tree / ".git"
    return link if link.is_dir() else tree / link.read_text("utf-8").partition(": ")[2].strip()


def read_head_commit(tree: Path) -> str:
    """Return the commit that is checked out; "" if there is no commit yet."""
    try:
        head = (find_git_folder(tree) / "HEAD").read_text(encoding="utf-8").strip()
        return (
            _read_branch_commit(tree, head.partition(": ")[2]) if head.startswith("ref:") else head
        )
    except (OSError, CommandFailedError):
        return ""


def _read_branch_commit(tree: Path, ref: str) -> str:
    """Return the commit of a branch from its ref file, else from `git rev-parse`."""
    with contextlib.suppress(OSError):
        return (find_git_folder(tree) / ref).read_text(encoding="utf-8").strip()
    return capture_git_output(tree, "rev-parse", "HEAD").strip()


def list_checked_out_submodules(tree: PurePath) -> Iterator[tuple[str, str]]:
    """Return path and commit of the submodules that are checked out, nested ones included.

    The commits that git's index records are not read.
    """
    for path in _read_gitmodules_paths(tree):
        inner = Path(tree) / path
        if is_checkout(inner) and (head := read_head_commit(inner)):
            yield path, head
            yield from (
                (f"{path}/{subpath}", commit)
                for subpath, commit in list_checked_out_submodules(inner)
            )


def hash_local_edits(tree: PurePath, *, untracked: bool = True) -> str:
    """Return a digest of changed and new files by path, mode and content; "" without any."""
    _, changed = _read_tracked_status(tree)
    return _hash_lines([*changed, *(_hash_untracked_files(tree) if untracked else ())])


def _read_tracked_status(tree: PurePath) -> tuple[str, list[str]]:
    """Return the commit, and a line of the digest for each tracked file with local changes."""
    text = capture_git_output(
        tree, "status", "--porcelain=v2", "-z", "--branch", "--no-renames",
        "--untracked-files=no", "--ignore-submodules=untracked",
    )  # fmt: skip
    entries = [entry for entry in text.split("\0") if entry]
    (commit,) = (e.rpartition(" ")[2] for e in entries if e.startswith("# branch.oid "))
    changed = [entry for entry in entries if not entry.startswith("#")]
    return commit, [line for entry in changed for line in _format_edit_lines(Path(tree), entry)]


def _hash_untracked_files(tree: PurePath, kept: PurePath | None = None) -> list[str]:
    top = Path(tree)
    names = list_untracked_files(
        partial(capture_git_output, tree),
        tree,
        find_git_folder(top),
        read_head_commit(top) if kept else "",
        kept,
    )
    return [f"{name}\0{fingerprint_file(top / name)}\n" for name in names]


def _hash_lines(lines: list[str]) -> str:
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest() if lines else ""


def _format_edit_lines(tree: Path, entry: str) -> Iterator[str]:
    """Return the line that one entry of `git status --porcelain=v2` adds to the digest."""
    kind = entry[0]
    fields = entry.split(" ", 8 if kind == "1" else 10)
    path = fields[-1]
    if not fields[2].startswith("S"):
        yield f"{path}\0{fingerprint_file(tree / path)}\n"
    elif "M" in fields[2]:
        yield f"{path}\0{hash_local_edits(tree / path, untracked=False)}\n"


def fingerprint_file(path: Path) -> str:
    """Return the entry of a file in a digest: mode and sha256, a link's target, or its kind."""
    if path.is_symlink():
        return f"link {path.readlink()}"
    if not path.is_file():
        return "folder" if path.exists() else "gone"
    executable = os.name != "nt" and bool(path.stat().st_mode & 0o100)
    return f"{'x' if executable else '-'} {files.read_artifact(path).sha256}"


def list_unignored_files(tree: PurePath, scratch: PurePath) -> tuple[str, ...]:
    """Return the files of a tree that is not a checkout, filtered by its .gitignore files.

    `scratch` is an empty repository, which is created if it does not exist. A repository inside
    the tree is returned as a folder, with a slash at its end.
    """
    if not Path(scratch).exists():
        shell.capture_output(
            build_git_command("init", "--quiet", "--bare", "--", str(scratch), what="list the tree")
        )
    git_options = (f"--git-dir={scratch}", f"--work-tree={tree}", "-c", "core.excludesFile=")
    output = capture_git_output(
        tree, *git_options, "ls-files", "-z", "--others", "--exclude-standard"
    )
    return tuple(sorted(entry for entry in output.split("\0") if entry))
