"""The files of a checkout that git does not know and does not ignore, without a walk where no
folder changed.

A file that comes or goes changes the time of its folder, which is what git's own untracked cache
goes by; that one lies in a person's index, and this one in a file of ours. A walk is due where a
folder, the index, the commit or .git/info/exclude changed, or something looks too fresh to tell.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath, PurePosixPath

from tasks.system.files import write_atomic

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
