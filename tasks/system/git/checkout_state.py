"""The files of a checkout that git does not know and does not ignore, without a walk where no
folder changed.

A file that comes or goes changes the time of its folder, which is what git's own untracked cache
goes by; that one lies in a person's index, and this one in a file of ours. A walk is due where a
folder, the index, the commit or .git/info/exclude changed, or something looks too fresh to tell.
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
_CLOCK_RESOLUTION_NS = 2_000_000_000  # ns: as coarse as a file system's clock may be
GitQuery = Callable[..., str]  # `state.ask` for the tree


@dataclass(frozen=True)
class _UntrackedCache:
    """What a walk found, and the stamps by which the next one is not due."""

    commit: str
    git: list[str]
    folders: dict[str, str]
    names: list[str]


def list_untracked_files(
    ask: GitQuery, tree: PurePath, place: Path, commit: str, kept: PurePath | None
) -> list[str]:
    """Their paths. `ask` runs a git command there, `place` is the repository's own folder, `kept`
    the file that is ours: None, or one whose folder is not there, has it walk each time.
    """
    before = _read_cache(kept)
    if (
        before
        and before.commit == commit
        and before.git == _stamp_git_files(place)
        and _is_unchanged(tree, before)
    ):
        return before.names
    started = time.time_ns()
    listed = ask("ls-files", "-z", "--others", "--exclude-standard")
    names = [name for name in listed.split("\0") if name]
    if kept and commit:
        known = ask("ls-tree", "-r", "-d", "-z", "--name-only", commit).split("\0")
        stamps = _stamp_folders(
            tree, dict.fromkeys([*known, *_list_parent_folders(names)]), started
        )
        git = _stamp_git_files(place, started)
        if all(stamps.values()) and all(git):
            _write_cache(kept, _UntrackedCache(commit, git, stamps, names))
    return names


def _stamp_folders(tree: PurePath, folders: Iterable[str], started: int) -> dict[str, str]:
    """Of the folders, and of what tells there which files are ignored."""
    found = {}
    for folder in folders:
        found[folder] = _stamp_path(f"{tree}/{folder}", started)
        ignored = f"{folder}/.gitignore"
        if (stamp := _stamp_path(f"{tree}/{ignored}", started)) != _ABSENT:
            found[ignored] = stamp
    return found


def _list_parent_folders(names: Iterable[str]) -> Iterable[str]:
    """Every folder that one of them lies in, the tree itself ("") included."""
    for name in names:
        yield from (str(folder) for folder in PurePosixPath(name).parents if str(folder) != ".")
    yield ""


def _stamp_git_files(place: Path, started: int | None = None) -> list[str]:
    return [_stamp_path(str(place / name), started) for name in ("index", "info/exclude")]


def _is_unchanged(tree: PurePath, seen: _UntrackedCache) -> bool:
    return all(_stamp_path(f"{tree}/{folder}") == held for folder, held in seen.folders.items())


def _stamp_path(path: str, started: int | None = None) -> str:
    """Nothing for one that may change after the walk that `started` and look the same."""
    try:
        there = os.stat(path)  # noqa: PTH116 - five times faster, for thousands of folders
    except OSError:
        return _ABSENT
    if started is not None and started - there.st_mtime_ns < _CLOCK_RESOLUTION_NS:
        return ""
    return f"{there.st_mtime_ns} {there.st_ino}"


def _read_cache(kept: PurePath | None) -> _UntrackedCache | None:
    try:
        seen = (
            _UntrackedCache(**json.loads(Path(kept).read_text(encoding="utf-8"))) if kept else None
        )
    except (OSError, ValueError, TypeError):
        return None
    whole = seen and isinstance(seen.folders, dict) and isinstance(seen.names, list)
    return seen if whole else None


def _write_cache(kept: PurePath, seen: _UntrackedCache) -> None:
    if Path(kept).parent.is_dir():
        write_atomic(kept, json.dumps(asdict(seen)))


@dataclass(frozen=True)
class GitState:
    """A checkout as it is. `submodules` maps paths to the commits checked out there; `edits` is ""
    when clean.
    """

    commit: str
    submodules: Mapping[str, str]
    edits: str


def is_checkout(path: PurePath) -> bool:
    """Whether `path` is the top of a git work tree."""
    return (Path(path) / ".git").exists()


def read_git_state(tree: PurePath, kept: PurePath | None = None) -> GitState:
    """Read a checkout; equal states mean equal content. In the tree nothing is written.

    git's index decides what is edited, in one command. Beside it the submodules are asked, and
    which files are new: by the file `kept`, which is ours, without a walk where no folder changed.
    """
    with ThreadPoolExecutor(max_workers=2) as beside:
        new = beside.submit(_hash_untracked_files, tree, kept)
        within = beside.submit(lambda: dict(list_checked_out_submodules(tree)))
        commit, changed = _read_tracked_status(tree)
        lines = [*changed, *new.result()]
        return GitState(commit, within.result(), _hash_lines(lines))


def is_clean(folder: PurePath) -> bool:
    """Return True if a folder is a checkout without local changes; False if git cannot tell."""
    try:
        return is_checkout(folder) and not read_git_state(folder).edits
    except (CommandFailedError, MissingToolError):
        return False


def capture_git_output(tree: PurePath, *args: str, what: str = "read the checkout") -> str:
    """What a short git command prints."""
    return shell.capture_output(build_git_command(*args, what=f"{what} {tree}", at=tree))


def read_commit_time(tree: PurePath) -> int:
    """When the commit that is checked out was made, in seconds since 1970; 0 without one."""
    try:
        told = capture_git_output(tree, "show", "-s", "--no-show-signature", "--format=%ct", "HEAD")
    except CommandFailedError:
        return 0
    return int(told)


def list_submodule_status(tree: PurePath) -> Iterator[tuple[str, str, str]]:
    """Flag ("-" not there, "+" another commit, " " in step), path and commit of every submodule.

    As `git submodule status`, which starts several processes for each: here git is asked twice a
    repository, and what is checked out is read.
    """
    for path, recorded in _read_index_submodules(tree).items():
        inner = Path(tree) / path
        head = read_head_commit(inner) if is_checkout(inner) else ""
        yield ("-" if not head else " " if head == recorded else "+"), path, head or recorded


def _read_index_submodules(tree: PurePath) -> dict[str, str]:
    """Path → commit of the submodules in git's index."""
    paths = _read_gitmodules_paths(tree)
    if not paths:
        return {}
    listed = capture_git_output(tree, "ls-files", "--stage", "-z", "--", *paths)
    entries = (entry.partition("\t") for entry in listed.split("\0"))
    return {path: head.split()[1] for head, _, path in entries if head.startswith("160000 ")}


def _read_gitmodules_paths(tree: PurePath) -> list[str]:
    """The paths that .gitmodules names."""
    if not (Path(tree) / ".gitmodules").exists():
        return []
    try:
        named = capture_git_output(
            tree, "config", "-z", "--file", ".gitmodules", "--get-regexp", r"\.path$"
        )
    except CommandFailedError:
        return []
    return [entry.partition("\n")[2] for entry in named.split("\0") if entry]


def find_git_folder(tree: Path) -> Path:
    """The repository's own folder: of a submodule or a worktree it lies elsewhere."""
    link = tree / ".git"
    return link if link.is_dir() else tree / link.read_text("utf-8").partition(": ")[2].strip()


def read_head_commit(tree: Path) -> str:
    """The commit that is checked out; "" where there is none yet."""
    try:
        head = (find_git_folder(tree) / "HEAD").read_text(encoding="utf-8").strip()
        return (
            _read_branch_commit(tree, head.partition(": ")[2]) if head.startswith("ref:") else head
        )
    except (OSError, CommandFailedError):
        return ""


def _read_branch_commit(tree: Path, ref: str) -> str:
    """The commit of a branch: read where it has a file of its own, else asked."""
    with contextlib.suppress(OSError):
        return (find_git_folder(tree) / ref).read_text(encoding="utf-8").strip()
    return capture_git_output(tree, "rev-parse", "HEAD").strip()


def list_checked_out_submodules(tree: PurePath) -> Iterator[tuple[str, str]]:
    """Path and commit of those that are checked out; what git's index records is not asked."""
    for path in _read_gitmodules_paths(tree):
        inner = Path(tree) / path
        if is_checkout(inner) and (head := read_head_commit(inner)):
            yield path, head
            yield from (
                (f"{path}/{below}", commit) for below, commit in list_checked_out_submodules(inner)
            )


def hash_local_edits(tree: PurePath, *, untracked: bool = True) -> str:
    """Digest of changed and new files by path, mode and content; "" where there are none."""
    _, changed = _read_tracked_status(tree)
    return _hash_lines([*changed, *(_hash_untracked_files(tree) if untracked else ())])


def _read_tracked_status(tree: PurePath) -> tuple[str, list[str]]:
    """The commit, and a line of the digest for each tracked file that is not as committed."""
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
    """The line that one entry of `git status --porcelain=v2` adds to the digest."""
    kind = entry[0]
    fields = entry.split(" ", 8 if kind == "1" else 10)
    path = fields[-1]
    if not fields[2].startswith("S"):
        yield f"{path}\0{fingerprint_file(tree / path)}\n"
    elif "M" in fields[2]:
        yield f"{path}\0{hash_local_edits(tree / path, untracked=False)}\n"


def fingerprint_file(path: Path) -> str:
    """What stands for a file in a digest: mode and sha256, a link's target, or what else it is."""
    if path.is_symlink():
        return f"link {path.readlink()}"
    if not path.is_file():
        return "folder" if path.exists() else "gone"
    executable = os.name != "nt" and bool(path.stat().st_mode & 0o100)
    return f"{'x' if executable else '-'} {files.read_artifact(path).sha256}"


def list_unignored_files(tree: PurePath, scratch: PurePath) -> tuple[str, ...]:
    """Files of a tree that is no checkout, by its own .gitignore; `scratch` is an empty repository.

    A repository inside the tree is named as a folder, with a slash at its end.
    """
    if not Path(scratch).exists():
        shell.capture_output(
            build_git_command("init", "--quiet", "--bare", "--", str(scratch), what="list the tree")
        )
    inside = (f"--git-dir={scratch}", f"--work-tree={tree}", "-c", "core.excludesFile=")
    listed = capture_git_output(tree, *inside, "ls-files", "-z", "--others", "--exclude-standard")
    return tuple(sorted(entry for entry in listed.split("\0") if entry))
