"""What the system tells of processes, asked four times a second: so by /proc itself on Linux, and
by psutil elsewhere. What is gone, or another user's, is nothing, never an error.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import PurePath
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import psutil

PROC = sys.platform == "linux"
_PAGE = os.sysconf("SC_PAGE_SIZE") if sys.platform == "linux" else 0
_ENDS = sum(1 << number - 1 for number in (1, 2, 3, 15))  # HUP, INT, QUIT, TERM
_ENOUGH = 1 << 20  # bytes; a command line with every object of libtorch in it has some 200 KiB
_Told = TypeVar("_Told")


def pids() -> set[int]:
    """Every process there is."""
    if PROC:
        return {int(name) for name in os.listdir("/proc") if name.isdecimal()}  # noqa: PTH208 - 5×
    import psutil  # noqa: PLC0415 - only where there is no /proc

    return set(psutil.pids())


def parent(pid: int) -> int:
    """0 where it is gone, or where that one is: a number comes again, and Windows tells it on."""
    if PROC:
        fields = _read(pid, "stat").rpartition(b")")[2].split()
        return int(fields[1]) if fields else 0
    found = _told(pid, lambda process: process.parent(), None)
    return found.pid if found else 0


def program(pid: int) -> str:
    """The name of what it runs, without ".exe": of the interpreter where it is a script."""
    if PROC:
        with contextlib.suppress(OSError):
            return PurePath(os.readlink(f"/proc/{pid}/exe")).name  # noqa: PTH115 - ten times faster
        return ""
    name = PurePath(_told(pid, lambda process: process.exe(), "")).name
    return name.lower().removesuffix(".exe") if sys.platform == "win32" else name


def resident(pid: int) -> int:
    """Bytes in memory, pages that it shares included."""
    if PROC:
        fields = _read(pid, "statm").split()
        return int(fields[1]) * _PAGE if fields else 0
    return _told(pid, lambda process: int(process.memory_info().rss), 0)


def arguments(pid: int) -> tuple[str, ...]:
    """Its command line."""
    if PROC:
        return tuple(os.fsdecode(_read(pid, "cmdline")).split("\0")[:-1])
    return _told(pid, lambda process: tuple(process.cmdline()), ())


def variable(pid: int, name: str) -> str:
    """A variable of its environment, "" where it has none."""
    if PROC:
        for entry in os.fsdecode(_read(pid, "environ")).split("\0"):
            if entry.startswith(f"{name}="):
                return entry.partition("=")[2]
        return ""
    return _told(pid, lambda process: process.environ().get(name, ""), "")


def _told(pid: int, question: Callable[[psutil.Process], _Told], unknown: _Told) -> _Told:
    import psutil  # noqa: PLC0415 - only where there is no /proc

    try:
        return question(psutil.Process(pid))
    except (psutil.Error, OSError):
        return unknown


def has_open(pid: int, path: str) -> bool:
    """Whether it holds that file open; True where that cannot be seen."""
    if not PROC:
        return True
    folder = f"/proc/{pid}/fd"
    try:
        file, names = os.stat(path), os.listdir(folder)  # noqa: PTH116, PTH208 - 5×
    except (FileNotFoundError, ProcessLookupError):
        return False
    except OSError:
        return True
    for name in names:
        with contextlib.suppress(OSError):
            if os.path.samestat(os.stat(f"{folder}/{name}"), file):  # noqa: PTH116 - 5×
                return True
    return False


def is_told_to_end(pid: int) -> bool:
    """Whether a signal to end waits until it can take it, as one that is stopped cannot. Linux
    only.
    """
    return any(
        line.startswith((b"SigPnd", b"ShdPnd")) and int(line.split()[1], 16) & _ENDS
        for line in _read(pid, "status").splitlines()
    )


def _read(pid: int, name: str) -> bytes:
    try:
        file = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return _all(file)
    except OSError:
        return b""
    finally:
        os.close(file)


def _all(file: int) -> bytes:
    """Of most files one read is all."""
    data = os.read(file, 4096)
    while len(data) % 4096 == 0 and data and len(data) < _ENOUGH:
        more = os.read(file, _ENOUGH)
        if not more:
            break
        data += more
    return data
