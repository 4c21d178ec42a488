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

_NOT_THERE = "-"
_TICK = 2_000_000_000  # ns: as coarse as a file system's clock may be
Ask = Callable[..., str]  # `state.ask` for the tree


@dataclass(frozen=True)
class _Seen:
    """What a walk found, and the stamps by which the next one is not due."""

    commit: str
    git: list[str]
    folders: dict[str, str]
    names: list[str]


def new_files(
    ask: Ask, tree: PurePath, place: Path, commit: str, kept: PurePath | None
) -> list[str]:
    """Their paths. `ask` runs a git command there, `place` is the repository's own folder, `kept`
    the file that is ours: None, or one whose folder is not there, has it walk each time.
    """
    before = _read(kept)
    if before and before.commit == commit and before.git == _of_git(place) and _same(tree, before):
        return before.names
    started = time.time_ns()
    listed = ask("ls-files", "-z", "--others", "--exclude-standard")
    names = [name for name in listed.split("\0") if name]
    if kept and commit:
        known = ask("ls-tree", "-r", "-d", "-z", "--name-only", commit).split("\0")
        stamps = _stamps(tree, dict.fromkeys([*known, *_above(names)]), started)
        git = _of_git(place, started)
        if all(stamps.values()) and all(git):
            _write(kept, _Seen(commit, git, stamps, names))
    return names


def _stamps(tree: PurePath, folders: Iterable[str], started: int) -> dict[str, str]:
    """Of the folders, and of what tells there which files are ignored."""
    found = {}
    for folder in folders:
        found[folder] = _stamp(f"{tree}/{folder}", started)
        ignored = f"{folder}/.gitignore"
        if (stamp := _stamp(f"{tree}/{ignored}", started)) != _NOT_THERE:
            found[ignored] = stamp
    return found


def _above(names: Iterable[str]) -> Iterable[str]:
    """Every folder that one of them lies in, the tree itself ("") included."""
    for name in names:
        yield from (str(folder) for folder in PurePosixPath(name).parents if str(folder) != ".")
    yield ""


def _of_git(place: Path, started: int | None = None) -> list[str]:
    return [_stamp(str(place / name), started) for name in ("index", "info/exclude")]


def _same(tree: PurePath, seen: _Seen) -> bool:
    return all(_stamp(f"{tree}/{folder}") == held for folder, held in seen.folders.items())


def _stamp(path: str, started: int | None = None) -> str:
    """Nothing for one that may change after the walk that `started` and look the same."""
    try:
        there = os.stat(path)  # noqa: PTH116 - five times faster, for thousands of folders
    except OSError:
        return _NOT_THERE
    if started is not None and started - there.st_mtime_ns < _TICK:
        return ""
    return f"{there.st_mtime_ns} {there.st_ino}"


def _read(kept: PurePath | None) -> _Seen | None:
    try:
        seen = _Seen(**json.loads(Path(kept).read_text(encoding="utf-8"))) if kept else None
    except (OSError, ValueError, TypeError):
        return None
    whole = seen and isinstance(seen.folders, dict) and isinstance(seen.names, list)
    return seen if whole else None


def _write(kept: PurePath, seen: _Seen) -> None:
    if Path(kept).parent.is_dir():
        write_atomic(kept, json.dumps(asdict(seen)))
