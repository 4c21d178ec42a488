"""Inspect processes with /proc on Linux and with psutil elsewhere; pause processes on Linux."""

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import PurePath
from subprocess import DEVNULL, PIPE, Popen
from typing import TypeVar

import psutil

from tasks.system import process_group

HAS_PROC = sys.platform == "linux"
_PAGE_SIZE = os.sysconf("SC_PAGE_SIZE") if sys.platform == "linux" else 0
_STOP_SIGNALS = sum(1 << number - 1 for number in (1, 2, 3, 15))  # HUP, INT, QUIT, TERM
_MAX_READ = 1 << 20  # bytes; the command line that links libtorch has about 200 KiB
_T = TypeVar("_T")


def list_pids() -> set[int]:
    """Return the ids of all processes."""
    if HAS_PROC:
        return {int(name) for name in os.listdir("/proc") if name.isdecimal()}  # noqa: PTH208 - 5×
    import psutil  # noqa: PLC0415 - only where there is no /proc

    return set(psutil.pids())


def find_parent_pid(pid: int) -> int:
    """Return the process id of the parent; 0 if the process or its parent has ended."""
    if HAS_PROC:
        fields = _read_proc_file(pid, "stat").rpartition(b")")[2].split()
        return int(fields[1]) if fields else 0
    # Windows may have reused the id of a dead parent; psutil checks for this
    parent = _query_process(pid, lambda process: process.parent(), None)
    return parent.pid if parent else 0


def read_program_name(pid: int) -> str:
    """Return the file name of the executable of a process, without ".exe"."""
    if HAS_PROC:
        with contextlib.suppress(OSError):
            return PurePath(os.readlink(f"/proc/{pid}/exe")).name  # noqa: PTH115 - ten times faster
        return ""
    name = PurePath(_query_process(pid, lambda process: process.exe(), "")).name
    return name.lower().removesuffix(".exe") if sys.platform == "win32" else name


def read_resident_bytes(pid: int) -> int:
    """Return the resident memory of a process in bytes, including shared pages."""
    if HAS_PROC:
        fields = _read_proc_file(pid, "statm").split()
        return int(fields[1]) * _PAGE_SIZE if fields else 0
    return _query_process(pid, lambda process: int(process.memory_info().rss), 0)


def read_arguments(pid: int) -> tuple[str, ...]:
    """Return the command line of a process."""
    if HAS_PROC:
        return tuple(os.fsdecode(_read_proc_file(pid, "cmdline")).split("\0")[:-1])
    return _query_process(pid, lambda process: tuple(process.cmdline()), ())


def read_variable(pid: int, name: str) -> str:
    """Return the value of an environment variable of a process; "" if it is not set."""
    if HAS_PROC:
        entries = os.fsdecode(_read_proc_file(pid, "environ")).split("\0")
        values = (entry.partition("=")[2] for entry in entries if entry.startswith(f"{name}="))
        return next(values, "")
    return _query_process(pid, lambda process: process.environ().get(name, ""), "")


def _query_process(pid: int, question: Callable[[psutil.Process], _T], unknown: _T) -> _T:
    import psutil  # noqa: PLC0415 - only where there is no /proc

    try:
        return question(psutil.Process(pid))
    except (psutil.Error, OSError):
        return unknown


def has_open_file(pid: int, path: str) -> bool:
    """Return True if the process has the file open, or if this cannot be determined."""
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


def _has_pending_stop_signal(pid: int) -> bool:
    """Return True if a stopped process will end as soon as it continues. Linux only."""
    lines = _read_proc_file(pid, "status").splitlines()
    pending = (int(n.split()[1], 16) for n in lines if n.startswith((b"SigPnd", b"ShdPnd")))
    return any(signals & _STOP_SIGNALS for signals in pending)


def _read_proc_file(pid: int, name: str) -> bytes:
    """Return the content of /proc/PID/NAME; b"" if it cannot be read."""
    with contextlib.suppress(OSError):
        file = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            chunk = data = os.read(file, 4096)
            while chunk and len(data) % 4096 == 0 and len(data) < _MAX_READ:
                chunk = os.read(file, _MAX_READ)
                data += chunk
            return data
        finally:
            os.close(file)
    return b""


# The script ignores signals to the whole session: it must survive to resume the paused jobs
_WATCHDOG_SCRIPT = """trap '' INT TERM HUP
while read -r line; do groups=$line; done
for group in $groups; do kill -s CONT -- "-$group"; done"""


class PausedJobs:
    """The paused jobs. `since` maps each process id to the monotonic time when its pause began."""

    def __init__(self) -> None:
        self.since: dict[int, float] = {}
        self._watch: Popen[str] | None = None
        self._ending: set[int] = set()
        self._possible = HAS_PROC

    def set_paused_jobs(self, jobs: frozenset[int], now: float) -> None:
        """Pause these jobs, except those that were told to end, and resume all others."""
        self._ending.update(filter(_has_pending_stop_signal, self.since))
        pids = set(filter(_is_group_leader, jobs - self._ending)) if self._possible else set()
        for pid in self.since.keys() - pids:
            _signal_group(pid, signal.SIGCONT)
        if pids != self.since.keys() and self._notify_watchdog(pids):
            for pid in pids - self.since.keys():
                _signal_group(pid, signal.SIGSTOP)
            self.since = {pid: self.since.get(pid, now) for pid in pids}

    def close(self) -> None:
        """Resume all jobs."""
        for pid in self.since:
            _signal_group(pid, signal.SIGCONT)
        self.since = {}
        watch, self._watch = self._watch, None
        if watch and watch.stdin:
            with contextlib.suppress(OSError):
                watch.stdin.close()
            watch.wait()
            process_group.end_group(watch)

    def _notify_watchdog(self, pids: set[int]) -> bool:
        """Send process ids to the watchdog, which resumes these jobs if torchyard is killed."""
        try:
            if not self._watch:
                argv = ("/bin/sh", "-c", _WATCHDOG_SCRIPT)
                self._watch = process_group.start_child(
                    argv, env={}, stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL, text=True
                )
            if self._watch.stdin:
                self._watch.stdin.write(" ".join(map(str, sorted(pids))) + "\n")
                self._watch.stdin.flush()
        except OSError:
            self._possible = False
            self.close()
            return False
        return True


def _is_group_leader(pid: int) -> bool:
    """Return True if a process leads a process group, as most jobs of Ninja do."""
    with contextlib.suppress(OSError):
        return sys.platform != "win32" and os.getpgid(pid) == pid
    return False


def _signal_group(pid: int, number: int) -> None:
    if sys.platform != "win32":
        with contextlib.suppress(OSError):
            os.killpg(pid, number)
