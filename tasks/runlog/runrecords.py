"""The records of a profile's runs: `build/PROFILE/records/runs`, a file a run, bounded.

One that cannot be read is set aside, and no run ends for it. Files are written by
`tasks.runlog.recording`, and their names sort by time.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePath

from tasks.runlog.record import Run, parse
from tasks.system.files import holder_of
from tasks.system.voice import warn

MOST_RUNS, MOST_BYTES = 50, 64 * 2**20
_OWN_BYTES = 9 * 2**20  # of the one that is about to be written
_LAST = 3
_COMPILED, _CHANGED = b'"event": "edges"', b'"outcome": "changed"'  # as they are written
_NAME = re.compile(r"\d{8}T\d{6}Z-(?P<pid>\d+)\.jsonl(?P<aside>\.corrupt)?")


def runs(folder: PurePath) -> Iterator[Run]:
    """Those that can be read, the newest first."""
    for path in _named(Path(folder)):
        if not path.name.endswith(".jsonl"):
            continue
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
            yield parse(filter(None, text.split("\n")))  # and nowhere else: a text may hold U+2028
        except OSError as error:
            warn(f"{path} cannot be read: {error.strerror}")
        except ValueError as error:
            if not _lives(_pid(path)):  # it may be at its first line
                _set_aside(path, error)


def is_at_work(folder: PurePath, run: Run) -> bool:
    """Whether the process that wrote it is at work yet in that profile."""
    holder = holder_of(Path(folder).parents[1]).partition("-")[0]
    return not run.outcome and holder == str(run.pid) and _lives(run.pid)


def make_room(folder: PurePath) -> None:
    """Remove what a person misses least where there are more than fit, so that there is room for
    one more. Who asks holds the lock of the profile: none of them is at work.
    """
    sizes = {path: _size(path) for path in _named(Path(folder))}
    if _fit(sizes.values()):
        return
    for path in _least_first(list(sizes)):
        with suppress(OSError):  # one that stays is no reason to write none of this run
            path.unlink()
        del sizes[path]
        if _fit(sizes.values()):
            return


def _fit(sizes: Collection[int]) -> bool:
    return len(sizes) < MOST_RUNS and sum(sizes) <= MOST_BYTES - _OWN_BYTES


def _least_first(known: Sequence[Path]) -> list[Path]:
    """Of `known`, the newest first: the oldest that made nothing, then the oldest. The last ones
    stay whatever comes, and so do the last that have what was compiled: many that fail at once
    would push out the build that took hours.
    """
    held = {path: _kinds(path) for path in known}
    compiled = [path for path in known if _COMPILED in held[path]]
    stay = {*known[:_LAST], *compiled[:_LAST]}
    going = [path for path in reversed(known) if path not in stay]
    return sorted(going, key=lambda path: bool(held[path]))


def _kinds(path: Path) -> set[bytes]:
    """Which of the two a record holds, without reading what it means: there can be 64 MiB."""
    try:
        text = path.read_bytes() if path.suffix == ".jsonl" else b""
    except OSError:
        return set()
    return {kind for kind in (_COMPILED, _CHANGED) if kind in text}


def _named(folder: Path) -> list[Path]:
    """The newest first; of two that began in one second, the one that was written to last."""
    found = [path for path in _listed(folder) if _NAME.fullmatch(path.name)]
    return sorted(found, key=lambda path: (path.name[:16], _written(path)), reverse=True)


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _written(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:  # it made room for a new one, or was set aside
        return 0


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _pid(path: Path) -> int:
    found = _NAME.fullmatch(path.name)
    return int(found["pid"]) if found else 0


def _lives(pid: int) -> bool:
    import psutil  # noqa: PLC0415 - only for what is left over, or has no end

    return psutil.pid_exists(pid)


def _set_aside(path: Path, error: ValueError) -> None:
    aside = path.with_name(f"{path.name}.corrupt")
    try:
        path.replace(aside)
    except OSError:
        warn(f"{path} is no record of a run, and cannot be moved away: {error}")
    else:
        warn(f"this is no record of a run ({error}); it is set aside: {aside}")
