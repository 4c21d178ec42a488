"""End a POSIX process group with SIGINT, SIGTERM and SIGKILL; after a failure, its session."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from subprocess import Popen, TimeoutExpired
from typing import Any

assert sys.platform != "win32"  # noqa: S101 - so mypy leaves the rest alone there

POPEN_OPTIONS: dict[str, Any] = {"start_new_session": True}


def begin_child(child: Popen[str], *, serves: bool) -> None:
    """Do nothing: the child already leads its group, and a server leaves that group."""


def end_child(child: Popen[str], grace: float) -> None:
    """End the remaining processes, with `grace` seconds between two signals.

    SIGTERM and SIGKILL also go to processes that left the group: Ninja waits for its compilers,
    which react slowly to SIGINT when memory is full.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        if number != signal.SIGINT and child.poll() is None:
            _signal_session(child.pid, number)
        if not _signal_group(child, number):
            break
        with contextlib.suppress(TimeoutExpired):
            child.wait(grace)
        patience = grace if number != signal.SIGINT else 0.5
        if _wait_until_gone(lambda: _has_live_members(child.pid), patience):
            break
    child.wait()
    # A killed Ninja does not end its compilers, and they would write to the files of the next run
    for number in (signal.SIGTERM, signal.SIGKILL) if child.returncode else ():
        if not _signal_session(child.pid, number) or _wait_until_gone(
            lambda: _find_live_processes(child.pid, os.getsid), grace
        ):
            break


def interrupt_child(child: Popen[str]) -> None:
    """Send SIGINT to the child's group."""
    _signal_group(child, signal.SIGINT)


def _signal_group(child: Popen[str], number: int) -> bool:
    """Return False if no process is left to signal."""
    with contextlib.suppress(OSError):
        os.killpg(child.pid, number)
        return True
    return False


def _wait_until_gone(find_running: Callable[[], object], patience: float) -> bool:
    """Return True if no process is running any more within `patience` seconds."""
    pause = threading.Event()
    for _ in range(int(patience / 0.05)):
        if not find_running():
            return True
        pause.wait(0.05)
    return False


def _has_live_members(group: int) -> bool:
    """Return True if a process of the group is running; a zombie does not count."""
    with contextlib.suppress(OSError):
        os.killpg(group, 0)
        return bool(_find_live_processes(group, os.getpgid))
    return False


def _signal_session(leader: int, number: int) -> list[int]:
    """Signal every process of the session and continue stopped ones; return their ids."""
    pids = _find_live_processes(leader, os.getsid)
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, number)
            os.kill(pid, signal.SIGCONT)  # a stopped process handles a signal only then
    return pids


def _find_live_processes(leader: int, leader_of: Callable[[int], int]) -> list[int]:
    """Return the processes of that leader's group or session."""
    import psutil  # noqa: PLC0415 - only where a child left someone behind

    pids = []
    for process in psutil.process_iter(["status"]):
        with contextlib.suppress(ProcessLookupError):
            is_zombie = process.info["status"] == psutil.STATUS_ZOMBIE
            if not is_zombie and leader_of(process.pid) == leader:
                pids.append(process.pid)
    return pids
