"""A child with its whole group: started in a session of its own, and ended with everyone in it.

On POSIX that is a process group and INT, then TERM, then KILL, and after a failure the session; on
Windows a console group and CTRL-BREAK, then the tree of processes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

GRACE = 5.0  # seconds between INT, TERM and KILL
_live: set[subprocess.Popen[str]] = set()


def start(argv: Sequence[str], **options: Any) -> subprocess.Popen[str]:
    """A child in a group of its own, which `end` is to be called for whatever happens."""
    if sys.platform == "win32":
        options["creationflags"] = subprocess.CREATE_NEW_PROCESS_GROUP
    else:
        options["start_new_session"] = True
    child: subprocess.Popen[str] = subprocess.Popen(argv, **options)
    _live.add(child)
    return child


def end(child: subprocess.Popen[str]) -> None:
    """End what is left of the group, the leader's children included, and wait for it; where it did
    not end well, also who had left the group, as each of Ninja's jobs does.
    """
    for number in _signals():
        if not _send(child, number):
            break
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(GRACE)
        if not _lives_on(child, GRACE if number != signal.SIGINT else 0.5):
            break
    child.wait()
    _live.discard(child)
    if child.returncode:
        _end_session(child.pid)


def interrupt_all() -> None:
    """Tell every child at work to stop, also those that another thread waits for. Does not wait."""
    for child in tuple(_live):
        _send(child, _signals()[0])


def _signals() -> tuple[int, ...]:
    if sys.platform == "win32":
        return (signal.CTRL_BREAK_EVENT, signal.SIGTERM)
    return (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


def _send(child: subprocess.Popen[str], number: int) -> bool:
    """False where there is nobody left to be told."""
    try:
        if sys.platform != "win32":
            os.killpg(child.pid, number)
        elif child.poll() is not None:
            return False
        elif number == signal.SIGTERM:
            _end_tree(child.pid)
        else:
            child.send_signal(number)
    except OSError:
        return False
    return True


def _end_tree(pid: int) -> None:
    import psutil  # noqa: PLC0415 - nothing at load needs it

    with contextlib.suppress(psutil.NoSuchProcess):
        leader = psutil.Process(pid)
        for process in [*leader.children(recursive=True), leader]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def _lives_on(child: subprocess.Popen[str], patience: float) -> bool:
    if sys.platform == "win32":
        return child.poll() is None
    return not _gone(lambda: _is_led(child.pid), patience)


def _gone(at_work: Callable[[], object], patience: float) -> bool:
    """Whether nobody is at work any more, within so many seconds."""
    pause = threading.Event()
    for _ in range(int(patience / 0.05)):
        if not at_work():
            return True
        pause.wait(0.05)
    return False


def _is_led(group: int) -> bool:
    """Whether anyone of the group still runs; one that only waits to be reaped does not."""
    if sys.platform == "win32":
        return False
    try:
        os.killpg(group, 0)
    except OSError:
        return False
    return bool(_alive(group, os.getpgid))


def _end_session(leader: int) -> None:
    """A Ninja that was killed ends nobody, and its compilers would write beside those of the next.
    One that is stopped takes a signal only when it goes on.
    """
    if sys.platform == "win32":
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        left = _alive(leader, os.getsid)
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, number)
                os.kill(pid, signal.SIGCONT)
        if not left or _gone(lambda: _alive(leader, os.getsid), GRACE):
            return


def _alive(leader: int, leader_of: Callable[[int], int]) -> list[int]:
    """Processes of that leader's group, or session."""
    import psutil  # noqa: PLC0415 - only where a child left someone behind

    found = []
    for process in psutil.process_iter(["status"]):
        with contextlib.suppress(ProcessLookupError):
            ended = process.info["status"] == psutil.STATUS_ZOMBIE
            if not ended and leader_of(process.pid) == leader:
                found.append(process.pid)
    return found
