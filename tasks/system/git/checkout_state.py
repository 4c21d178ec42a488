"""Read the state of a checkout: commit, submodules, local changes and untracked files.

The list of untracked files is cached in a file outside of the user's repository. git lists the
files again if the commit changed, or the modification time of a folder, a .gitignore, the index or
.git/info/exclude. The list is not cached if one of these changed a moment ago.
"""

import contextlib
import hashlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath

import msgspec

from tasks.core.errors import CommandFailedError, MissingToolError
from tasks.system import files, shell
from tasks.system.git.git_command import build_git_command

_ABSENT = "-"
_CLOCK_RESOLUTION_NS = 2_000_000_000  # ns: the coarsest clock resolution of a file system


@dataclass(frozen=True)
class _UntrackedCache:
    """Untracked files; up to date while `commit`, `git` and `folders` (times) are unchanged."""

    commit: str
    git: list[str]
    folders: dict[str, str]
    names: list[str]


def _list_untracked_files(tree: PurePath, cache: PurePath | None) -> list[str]:
    """Return the untracked files: from the file `cache` if it is up to date, otherwise from git."""
    commit = read_head_commit(Path(tree)) if cache else ""
    cached = _read_cache(cache) if cache else None
    if (
        cached
        and cached.commit == commit
        and cached.git == _stamp_git_files(tree)
        and all(_stamp_path(f"{tree}/{name}") == stamp for name, stamp in cached.folders.items())
    ):
        return cached.names
    scan_time = time.time_ns()
    names = list_git_entries(tree, "ls-files", "--others", "--exclude-standard")
    if cache and commit and Path(cache).parent.is_dir():
        tracked_folders = list_git_entries(tree, "ls-tree", "-r", "-d", "--name-only", commit)
        parents = (str(parent) for name in names for parent in PurePosixPath(name).parents)
        # The empty name is the tree itself
        folders = dict.fromkeys([*tracked_folders, "", *(name for name in parents if name != ".")])
        stamps = _stamp_folders(tree, folders, scan_time)
        git = _stamp_git_files(tree, scan_time)
        if all(stamps.values()) and all(git):
            cached = _UntrackedCache(commit, git, stamps, names)
            files.write_atomic(cache, msgspec.json.encode(cached))
    return names


def _stamp_folders(tree: PurePath, folders: Iterable[str], started: int) -> dict[str, str]:
    paths = (path for folder in folders for path in (folder, f"{folder}/.gitignore"))
    stamps = {path: _stamp_path(f"{tree}/{path}", started) for path in paths}
    return {path: stamp for path, stamp in stamps.items() if stamp != _ABSENT}


def _stamp_git_files(tree: PurePath, started: int | None = None) -> list[str]:
    folder = find_git_folder(Path(tree))
    return [_stamp_path(str(folder / name), started) for name in ("index", "info/exclude")]


def _stamp_path(path: str, started: int | None = None) -> str:
    """Return a path's modification time and inode, "-" if the path is missing.

    Returns "" if the path changed so shortly before `started` (in ns) that a later change may get
    the same time.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 - five times faster, for thousands of folders
    except OSError:
        return _ABSENT
    if started is not None and started - status.st_mtime_ns < _CLOCK_RESOLUTION_NS:
        return ""
    return f"{status.st_mtime_ns} {status.st_ino}"


def _read_cache(path: PurePath) -> _UntrackedCache | None:
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=_UntrackedCache)
    except (OSError, ValueError, msgspec.MsgspecError):
        return None


@dataclass(frozen=True)
class GitState:
    """A checkout's commit, submodules (path → commit) and digest of all edits ("" if clean)."""

    commit: str
    submodules: Mapping[str, str]
    edits: str


def is_checkout(path: PurePath) -> bool:
    """Return True if `path` is the top of a git work tree."""
    return (Path(path) / ".git").exists()


def read_git_state(tree: PurePath, cache: PurePath | None = None) -> GitState:
    """Return a checkout's state; the file `cache` stores the list of untracked files."""
    with ThreadPoolExecutor(max_workers=2) as executor:
        untracked = executor.submit(_hash_untracked_files, tree, cache)
        submodules = executor.submit(lambda: dict(list_checked_out_submodules(tree)))
        commit, changed = _read_tracked_status(tree)
        return GitState(commit, submodules.result(), _hash_lines([*changed, *untracked.result()]))


def is_clean(folder: PurePath) -> bool:
    """Return True if a folder is a checkout without local changes; False if git fails."""
    try:
        return is_checkout(folder) and not read_git_state(folder).edits
    except (CommandFailedError, MissingToolError):
        return False


def capture_git_output(tree: PurePath, *args: str, what: str = "read the checkout") -> str:
    """Return the output of a short git command in `tree`; `what` describes it in errors."""
    return shell.capture_output(build_git_command(*args, what=f"{what} {tree}", at=tree))


def list_git_entries(
    tree: PurePath, command: str, *args: str, what: str = "read the checkout"
) -> list[str]:
    """Return the entries that a git command with `-z` prints, split at the NUL characters."""
    output = capture_git_output(tree, command, "-z", *args, what=what)
    return [entry for entry in output.split("\0") if entry]


def read_commit_time(tree: PurePath) -> int:
    """Return the time of the checked-out commit, in seconds since 1970; 0 without a commit."""
    try:
        argv = ("show", "-s", "--no-show-signature", "--format=%ct", "HEAD")
        return int(capture_git_output(tree, *argv))
    except CommandFailedError:
        return 0


def list_submodule_status(tree: PurePath) -> Iterator[tuple[str, str, str]]:
    """Yield the flag, path and commit of every submodule in git's index.

    The flag is "-" for a submodule that is not checked out, " " for one at the recorded commit
    and "+" for one at a different commit. This is faster than `git submodule status`.
    """
    if not (paths := read_submodule_names(tree)):
        return
    for entry in list_git_entries(tree, "ls-files", "--stage", "--", *paths):
        head, _, path = entry.partition("\t")
        if head.startswith("160000 "):
            recorded, inner = head.split()[1], Path(tree) / path
            commit = read_head_commit(inner) if is_checkout(inner) else ""
            flag = "-" if not commit else " " if commit == recorded else "+"
            yield flag, path, commit or recorded


def read_submodule_names(tree: PurePath) -> dict[str, str]:
    """Return a mapping from the path of each submodule in .gitmodules to its name."""
    if not (Path(tree) / ".gitmodules").exists():
        return {}
    argv = ("--file", ".gitmodules", "--get-regexp", r"\.path$")
    with contextlib.suppress(CommandFailedError):
        pairs = (entry.partition("\n") for entry in list_git_entries(tree, "config", *argv))
        return {path: key[len("submodule.") : -len(".path")] for key, _, path in pairs}
    return {}


def find_git_folder(tree: Path) -> Path:
    """Return a repository's git folder; for a submodule or worktree, follow the `.git` file."""
    link = tree / ".git"
    return link if link.is_dir() else tree / link.read_text("utf-8").partition(": ")[2].strip()


def read_head_commit(tree: Path) -> str:
    """Return the commit that is checked out; "" if there is no commit yet."""
    try:
        head = (find_git_folder(tree) / "HEAD").read_text(encoding="utf-8").strip()
        if not head.startswith("ref:"):
            return head
        with contextlib.suppress(OSError):  # the branch has no file of its own
            ref = find_git_folder(tree) / head.partition(": ")[2]
            return ref.read_text(encoding="utf-8").strip()
        return capture_git_output(tree, "rev-parse", "HEAD").strip()
    except (OSError, CommandFailedError):
        return ""


def list_checked_out_submodules(tree: PurePath) -> Iterator[tuple[str, str]]:
    """Yield the path and commit of each checked-out submodule, including nested ones."""
    for path in read_submodule_names(tree):
        inner = Path(tree) / path
        if is_checkout(inner) and (head := read_head_commit(inner)):
            yield path, head
            for nested, commit in list_checked_out_submodules(inner):
                yield f"{path}/{nested}", commit


def hash_local_edits(tree: PurePath, *, untracked: bool = True) -> str:
    """Return a digest of the changed and, if wanted, the untracked files; "" if clean."""
    _, changed = _read_tracked_status(tree)
    return _hash_lines([*changed, *(_hash_untracked_files(tree) if untracked else ())])


def _read_tracked_status(tree: PurePath) -> tuple[str, list[str]]:
    """Return the checked-out commit, and a line with the content's digest per changed file."""
    entries = list_git_entries(
        tree, "status", "--porcelain=v2", "--branch", "--no-renames",
        "--untracked-files=no", "--ignore-submodules=untracked",
    )  # fmt: skip
    (commit,) = (e.rpartition(" ")[2] for e in entries if e.startswith("# branch.oid "))
    lines = []
    for entry in (entry for entry in entries if not entry.startswith("#")):
        *fields, name = entry.split(" ", 8 if entry.startswith("1") else 10)
        path = Path(tree) / name
        if not fields[2].startswith("S"):
            lines.append(f"{name}\0{fingerprint_file(path)}\n")
        elif "M" in fields[2]:
            lines.append(f"{name}\0{hash_local_edits(path, untracked=False)}\n")
    return commit, lines


def _hash_untracked_files(tree: PurePath, cache: PurePath | None = None) -> list[str]:
    names = _list_untracked_files(tree, cache)
    return [f"{name}\0{fingerprint_file(Path(tree) / name)}\n" for name in names]


def _hash_lines(lines: list[str]) -> str:
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest() if lines else ""


def fingerprint_file(path: Path) -> str:
    """Return a text that identifies a file by mode and sha256, and a symbolic link by target."""
    if path.is_symlink():
        return f"link {path.readlink()}"
    if not path.is_file():
        return "folder" if path.exists() else "gone"
    executable = os.name != "nt" and bool(path.stat().st_mode & 0o100)
    return f"{'x' if executable else '-'} {files.read_artifact(path).sha256}"


def list_unignored_files(tree: PurePath, scratch: PurePath) -> tuple[str, ...]:
    """Return the files of a tree that is not a checkout, without those that .gitignore excludes.

    git needs an empty repository for this, which is created as `scratch`. A repository in the
    tree is returned as one folder with a slash at the end.
    """
    if not Path(scratch).exists():
        argv = ("init", "--quiet", "--bare", "--", str(scratch))
        shell.capture_output(build_git_command(*argv, what="list the tree"))
    options = (f"--git-dir={scratch}", f"--work-tree={tree}", "-c", "core.excludesFile=")
    listing = ("ls-files", "-z", "--others", "--exclude-standard")
    output = capture_git_output(tree, *options, *listing)
    return tuple(sorted(filter(None, output.split("\0"))))
