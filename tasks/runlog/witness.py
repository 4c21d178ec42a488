"""Looks at the memory while a stage is at work, and keeps what a failure is told by beside its log.

Linux counts what it ended for want of memory, in the control group of this process (`oom_kill` of
memory.events, v1: memory.oom_control) or as a whole (/proc/vmstat). Where nobody counts, the least
memory that was available has to tell.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path

from tasks.core.digest import canonical, plain
from tasks.diagnosis.facts import Facts, pressure
from tasks.system.files import write_atomic
from tasks.system.hardware import memory

_TICK = 0.5  # seconds between two looks
_COUNTERS = {1: "memory.oom_control", 2: "memory.events"}
_MIB = 2**20


@dataclass
class Witness:
    """What was seen so far. `proc` is another one only in tests."""

    proc: Path = memory.PROC
    lowest_mib: int | None = None
    limit_mib: int | None = None
    _above: tuple[memory.Group, ...] = ()
    _before: dict[Path, int] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)

    def begin(self) -> None:
        """Count from here on."""
        self._above = memory.groups(self.proc)
        self._before = _kills(self._above, self.proc)
        self.look()

    def look(self) -> None:
        """What memory is available now."""
        there = memory.measure(self._above, self.proc)
        if self.lowest_mib is None or there.available_mib < self.lowest_mib:
            self.lowest_mib, self.limit_mib = there.available_mib, there.limit_mib

    def watch(self) -> None:
        """Look again and again until it is over."""
        while not self._over.wait(_TICK):
            with contextlib.suppress(OSError, ValueError):
                self.look()

    def end(self) -> None:
        """No more."""
        self._over.set()

    def facts(self, log: Path) -> Facts:
        """What it saw, for the log of a command that failed."""
        return Facts(
            size=log.stat().st_size,
            kills=self._counted(),
            lowest_mib=self.lowest_mib,
            limit_mib=self.limit_mib,
            free_mib=shutil.disk_usage(log.parent).free // _MIB,
        )

    def short(self) -> bool | None:
        """Whether memory was short so far, None where that is not sure."""
        seen = Facts(kills=self._counted(), lowest_mib=self.lowest_mib, limit_mib=self.limit_mib)
        return pressure(seen)[0]

    def _counted(self) -> int | None:
        now = _kills(self._above, self.proc)
        kills = [count - self._before[file] for file, count in now.items() if file in self._before]
        return max(kills, default=None)


@contextlib.contextmanager
def watching() -> Iterator[Witness]:
    """A witness for as long as the block is at work."""
    seen = Witness()
    with contextlib.suppress(OSError, ValueError):
        seen.begin()
    thread = threading.Thread(target=seen.watch, name="witness", daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        seen.end()


def keep(log: Path, facts: Facts) -> None:
    """Beside the log, for `doit diagnose` later; a full disk is no further failure."""
    with contextlib.suppress(OSError):
        write_atomic(_beside(log), canonical(plain(facts)))


def kept(log: Path) -> Facts | None:
    """The facts of the log, None where there are none or the log is not as it was then."""
    try:
        found = json.loads(_beside(log).read_text(encoding="utf-8"))
        known = {one.name for one in fields(Facts)}
        facts = Facts(**{name: value for name, value in found.items() if name in known})
        return facts if facts.size == log.stat().st_size else None
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def _beside(log: Path) -> Path:
    return log.with_suffix(".facts.json")


def _kills(above: tuple[memory.Group, ...], proc: Path) -> dict[Path, int]:
    """How many programs the kernel has ended for want of memory, by who counts; v1 does not count
    those of groups below.
    """
    found = {}
    for file in (*(group.folder / _COUNTERS[group.version] for group in above), proc / "vmstat"):
        with contextlib.suppress(OSError, ValueError):
            for line in file.read_text(encoding="ascii").splitlines():
                if line.startswith("oom_kill "):
                    found[file] = int(line.split()[1])
    return found
