"""End a child's process group and, if the child failed, its whole session. POSIX only."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from subprocess import Popen, TimeoutExpired
from typing import Any

assert sys.platform != "win32"  # noqa: S101 - so that mypy skips this module on Windows

POPEN_OPTIONS: dict[str, Any] = {"start_new_session": True}


def begin_child(child: Popen[str], *, serves: bool) -> None:
    """Do nothing: the child already has its own process group."""


def end_child(child: Popen[str], grace: float) -> None:
    """End the child's process group: send SIGINT, SIGTERM and SIGKILL, `grace` seconds apart.

    SIGTERM and SIGKILL also go to processes that left the group, such as compilers.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        if number != signal.SIGINT and child.poll() is None:
            _signal_session(child.pid, number)
        if not _signal_group(child, number):
            break
        with contextlib.suppress(TimeoutExpired):
            child.wait(grace)
        patience = grace if number != signal.SIGINT else 0.5
        # The first condition is far quicker, but also true for zombies
        if _wait_until_gone(
            lambda: _signal_group(child, 0) and _find_live_processes(child.pid, os.getpgid),
            patience,
        ):
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
    """Send a signal to the child's group; return False if the group has no process left."""
    with contextlib.suppress(OSError):
        os.killpg(child.pid, number)
        return True
    return False


def _wait_until_gone(find_running: Callable[[], object], patience: float) -> bool:
    """Wait up to `patience` seconds; return True as soon as `find_running` finds no process."""
    pause = threading.Event()
    for _ in range(int(patience / 0.05)):
        if not find_running():
            return True
        pause.wait(0.05)
    return False


def _signal_session(leader: int, number: int) -> list[int]:
    """Send a signal and SIGCONT to all processes in the session of `leader`; return their ids."""
    pids = _find_live_processes(leader, os.getsid)
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, number)
            os.kill(pid, signal.SIGCONT)  # only then does a stopped process handle the signal
    return pids


def _find_live_processes(leader: int, leader_of: Callable[[int], int]) -> list[int]:
    """Return the ids of the live processes in the group or session of `leader`."""
    import psutil  # noqa: PLC0415 - only if a child left processes behind

    pids = []
    for process in psutil.process_iter(["status"]):
        with contextlib.suppress(ProcessLookupError):
            is_zombie = process.info["status"] == psutil.STATUS_ZOMBIE
            if not is_zombie and leader_of(process.pid) == leader:
                pids.append(process.pid)
    return pids
