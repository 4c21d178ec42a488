"""Jobs that are stopped for a while, and the promise that each goes on, whatever becomes of us.

Ninja gives each job a process group, so one signal stops all of it. A shell of a few hundred KiB
holds the other end of a pipe and knows who is stopped: when the pipe closes, be it that this
process was killed, it lets them go on. Linux only: elsewhere nothing says that a stopped job was
told to end.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from subprocess import DEVNULL, PIPE, Popen
from typing import Any

from tasks.jobs.jobserver import processes
from tasks.system.process import process_group

# It outlives a signal to everyone, since it is the one that ends the pause
_WATCHDOG_SCRIPT = """trap '' INT TERM HUP
while read -r line; do groups=$line; done
for group in $groups; do kill -s CONT -- "-$group"; done"""


class PausedJobs:
    """Who is stopped: `since` when, by process id, in seconds of a steady clock."""

    def __init__(self) -> None:
        self.since: dict[int, float] = {}
        self._watch: Popen[str] | None = None
        self._ending: set[int] = set()
        self._possible = processes.HAS_PROC

    def set_paused_jobs(self, wanted: frozenset[int], now: float) -> None:
        """Let `wanted` be stopped and no others. A build that is told to end goes on to do so."""
        self._ending.update(filter(processes.has_pending_stop_signal, self.since))
        able = (pid for pid in wanted - self._ending if self._possible and _is_group_leader(pid))
        wanted = frozenset(able)
        for pid in self.since.keys() - wanted:
            _signal_group(pid, signal.SIGCONT)
        if wanted != self.since.keys() and self._notify_watchdog(wanted):
            for pid in wanted - self.since.keys():
                _signal_group(pid, signal.SIGSTOP)
            self.since = {pid: self.since.get(pid, now) for pid in wanted}

    def close(self) -> None:
        """Everyone goes on."""
        watch, self._watch = self._watch, None
        for pid in self.since:
            _signal_group(pid, signal.SIGCONT)
        self.since = {}
        if watch and watch.stdin:
            with contextlib.suppress(OSError):
                watch.stdin.close()
            watch.wait()
            process_group.end_group(watch)

    def _notify_watchdog(self, wanted: frozenset[int]) -> bool:
        """Tell the watch first: between the two steps we may be killed. False where it is gone."""
        try:
            if not self._watch:
                options: dict[str, Any] = {"stdout": DEVNULL, "stderr": DEVNULL, "text": True}
                argv = ("/bin/sh", "-c", _WATCHDOG_SCRIPT)
                self._watch = process_group.start_child(argv, stdin=PIPE, env={}, **options)
            if self._watch.stdin:
                self._watch.stdin.write(" ".join(map(str, sorted(wanted))) + "\n")
                self._watch.stdin.flush()
        except OSError:
            self._possible = False
            self.close()
            return False
        return True


def _is_group_leader(pid: int) -> bool:
    """Whether it has a process group of its own; a job on the console shares Ninja's."""
    if sys.platform == "win32":
        return False
    try:
        return os.getpgid(pid) == pid
    except OSError:
        return False


def _signal_group(pid: int, number: int) -> None:
    if sys.platform != "win32":
        with contextlib.suppress(OSError):
            os.killpg(pid, number)
