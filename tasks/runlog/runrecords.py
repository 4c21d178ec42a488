"""The records of a profile's runs: `build/PROFILE/records/runs`, a file a run, bounded.

One that cannot be read is set aside, and no run ends for it. Files are written by
`tasks.runlog.recording`, and their names sort by time.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePath

from tasks.runlog.record import Run, parse_run
from tasks.system.files import read_lock_holder
from tasks.system.voice import print_warning

MAX_RUNS, MAX_RECORDS_BYTES = 50, 64 * 2**20
_RESERVED_BYTES = 9 * 2**20  # of the one that is about to be written
_ALWAYS_KEPT = 3
_COMPILED_MARK, _CHANGED_MARK = b'"event": "edges"', b'"outcome": "changed"'  # as they are written
_RECORD_NAME = re.compile(r"\d{8}T\d{6}Z-(?P<pid>\d+)\.jsonl(?P<aside>\.corrupt)?")


def read_runs(folder: PurePath) -> Iterator[Run]:
    """Those that can be read, the newest first."""
    for path in _list_records(Path(folder)):
        if not path.name.endswith(".jsonl"):
            continue
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
            yield parse_run(
                filter(None, text.split("\n"))
            )  # and nowhere else: a text may hold U+2028
        except OSError as error:
            print_warning(f"{path} cannot be read: {error.strerror}")
        except ValueError as error:
            if not _is_process_alive(_parse_pid(path)):  # it may be at its first line
                _move_corrupt_record(path, error)


def is_run_active(folder: PurePath, run: Run) -> bool:
    """Whether the process that wrote it is at work yet in that profile."""
    holder = read_lock_holder(Path(folder).parents[1]).partition("-")[0]
    return not run.outcome and holder == str(run.pid) and _is_process_alive(run.pid)


def prune_records(folder: PurePath) -> None:
    """Remove what a person misses least where there are more than fit, so that there is room for
    one more. Who asks holds the lock of the profile: none of them is at work.
    """
    sizes = {path: _read_size(path) for path in _list_records(Path(folder))}
    if _fits_limits(sizes.values()):
        return
    for path in _sort_for_removal(list(sizes)):
        with suppress(OSError):  # one that stays is no reason to write none of this run
            path.unlink()
        del sizes[path]
        if _fits_limits(sizes.values()):
            return


def _fits_limits(sizes: Collection[int]) -> bool:
    return len(sizes) < MAX_RUNS and sum(sizes) <= MAX_RECORDS_BYTES - _RESERVED_BYTES


def _sort_for_removal(known: Sequence[Path]) -> list[Path]:
    """Of `known`, the newest first: the oldest that made nothing, then the oldest. The last ones
    stay whatever comes, and so do the last that have what was compiled: many that fail at once
    would push out the build that took hours.
    """
    held = {path: _read_marks(path) for path in known}
    compiled = [path for path in known if _COMPILED_MARK in held[path]]
    stay = {*known[:_ALWAYS_KEPT], *compiled[:_ALWAYS_KEPT]}
    going = [path for path in reversed(known) if path not in stay]
    return sorted(going, key=lambda path: bool(held[path]))


def _read_marks(path: Path) -> set[bytes]:
    """Which of the two a record holds, without reading what it means: there can be 64 MiB."""
    try:
        text = path.read_bytes() if path.suffix == ".jsonl" else b""
    except OSError:
        return set()
    return {kind for kind in (_COMPILED_MARK, _CHANGED_MARK) if kind in text}


def _list_records(folder: Path) -> list[Path]:
    """The newest first; of two that began in one second, the one that was written to last."""
    found = [path for path in _list_folder(folder) if _RECORD_NAME.fullmatch(path.name)]
    return sorted(found, key=lambda path: (path.name[:16], _read_mtime(path)), reverse=True)


def _list_folder(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _read_mtime(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:  # it made room for a new one, or was set aside
        return 0


def _read_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _parse_pid(path: Path) -> int:
    found = _RECORD_NAME.fullmatch(path.name)
    return int(found["pid"]) if found else 0


def _is_process_alive(pid: int) -> bool:
    import psutil  # noqa: PLC0415 - only for what is left over, or has no end

    return psutil.pid_exists(pid)


def _move_corrupt_record(path: Path, error: ValueError) -> None:
    aside = path.with_name(f"{path.name}.corrupt")
    try:
        path.replace(aside)
    except OSError:
        print_warning(f"{path} is no record of a run, and cannot be moved away: {error}")
    else:
        print_warning(f"this is no record of a run ({error}); it is set aside: {aside}")
