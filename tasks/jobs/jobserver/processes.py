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

HAS_PROC = sys.platform == "linux"
_PAGE_SIZE = os.sysconf("SC_PAGE_SIZE") if sys.platform == "linux" else 0
_STOP_SIGNALS = sum(1 << number - 1 for number in (1, 2, 3, 15))  # HUP, INT, QUIT, TERM
_MAX_READ = 1 << 20  # bytes; a command line with every object of libtorch in it has some 200 KiB
_Answer = TypeVar("_Answer")


def list_pids() -> set[int]:
    """Every process there is."""
    if HAS_PROC:
        return {int(name) for name in os.listdir("/proc") if name.isdecimal()}  # noqa: PTH208 - 5×
    import psutil  # noqa: PLC0415 - only where there is no /proc

    return set(psutil.pids())


def find_parent_pid(pid: int) -> int:
    """0 where it is gone, or where that one is: a number comes again, and Windows tells it on."""
    if HAS_PROC:
        fields = _read_proc_file(pid, "stat").rpartition(b")")[2].split()
        return int(fields[1]) if fields else 0
    found = _query_process(pid, lambda process: process.parent(), None)
    return found.pid if found else 0


def read_program_name(pid: int) -> str:
    """The name of what it runs, without ".exe": of the interpreter where it is a script."""
    if HAS_PROC:
        with contextlib.suppress(OSError):
            return PurePath(os.readlink(f"/proc/{pid}/exe")).name  # noqa: PTH115 - ten times faster
        return ""
    name = PurePath(_query_process(pid, lambda process: process.exe(), "")).name
    return name.lower().removesuffix(".exe") if sys.platform == "win32" else name


def read_resident_bytes(pid: int) -> int:
    """Bytes in memory, pages that it shares included."""
    if HAS_PROC:
        fields = _read_proc_file(pid, "statm").split()
        return int(fields[1]) * _PAGE_SIZE if fields else 0
    return _query_process(pid, lambda process: int(process.memory_info().rss), 0)


def read_arguments(pid: int) -> tuple[str, ...]:
    """Its command line."""
    if HAS_PROC:
        return tuple(os.fsdecode(_read_proc_file(pid, "cmdline")).split("\0")[:-1])
    return _query_process(pid, lambda process: tuple(process.cmdline()), ())


def read_variable(pid: int, name: str) -> str:
    """A variable of its environment, "" where it has none."""
    if HAS_PROC:
        for entry in os.fsdecode(_read_proc_file(pid, "environ")).split("\0"):
            if entry.startswith(f"{name}="):
                return entry.partition("=")[2]
        return ""
    return _query_process(pid, lambda process: process.environ().get(name, ""), "")


def _query_process(
    pid: int, question: Callable[[psutil.Process], _Answer], unknown: _Answer
) -> _Answer:
    import psutil  # noqa: PLC0415 - only where there is no /proc

    try:
        return question(psutil.Process(pid))
    except (psutil.Error, OSError):
        return unknown


def has_open_file(pid: int, path: str) -> bool:
    """Whether it holds that file open; True where that cannot be seen."""
    if not HAS_PROC:
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


def has_pending_stop_signal(pid: int) -> bool:
    """Whether a signal to end waits until it can take it, as one that is stopped cannot. Linux
    only.
    """
    return any(
        line.startswith((b"SigPnd", b"ShdPnd")) and int(line.split()[1], 16) & _STOP_SIGNALS
        for line in _read_proc_file(pid, "status").splitlines()
    )


def _read_proc_file(pid: int, name: str) -> bytes:
    try:
        file = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return _read_descriptor(file)
    except OSError:
        return b""
    finally:
        os.close(file)


def _read_descriptor(file: int) -> bytes:
    """Of most files one read is all."""
    data = os.read(file, 4096)
    while len(data) % 4096 == 0 and data and len(data) < _MAX_READ:
        more = os.read(file, _MAX_READ)
        if not more:
            break
        data += more
    return data
