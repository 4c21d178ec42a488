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

from tasks.core.canonical_json import convert_to_json, format_canonical_json
from tasks.diagnosis.run_facts import RunFacts, assess_memory_pressure
from tasks.system.files import write_atomic
from tasks.system.hardware import capacity

_POLL_INTERVAL = 0.5  # seconds between two looks
_OOM_COUNTER_FILES = {1: "memory.oom_control", 2: "memory.events"}
_MIB = 2**20


@dataclass
class MemoryMonitor:
    """What was seen so far. `proc` is another one only in tests."""

    proc: Path = capacity.PROC
    lowest_mib: int | None = None
    limit_mib: int | None = None
    _above: tuple[capacity.ControlGroup, ...] = ()
    _before: dict[Path, int] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)

    def start_counting(self) -> None:
        """Count from here on."""
        self._above = capacity.find_control_groups(self.proc)
        self._before = _read_kill_counts(self._above, self.proc)
        self.sample_memory()

    def sample_memory(self) -> None:
        """What memory is available now."""
        there = capacity.measure_memory(self._above, self.proc)
        if self.lowest_mib is None or there.available_mib < self.lowest_mib:
            self.lowest_mib, self.limit_mib = there.available_mib, there.limit_mib

    def poll_memory(self) -> None:
        """Look again and again until it is over."""
        while not self._over.wait(_POLL_INTERVAL):
            with contextlib.suppress(OSError, ValueError):
                self.sample_memory()

    def stop_polling(self) -> None:
        """No more."""
        self._over.set()

    def collect_facts(self, log: Path) -> RunFacts:
        """What it saw, for the log of a command that failed."""
        return RunFacts(
            size=log.stat().st_size,
            kills=self._count_kills(),
            lowest_mib=self.lowest_mib,
            limit_mib=self.limit_mib,
            free_mib=shutil.disk_usage(log.parent).free // _MIB,
        )

    def is_memory_short(self) -> bool | None:
        """Whether memory was short so far, None where that is not sure."""
        seen = RunFacts(
            kills=self._count_kills(), lowest_mib=self.lowest_mib, limit_mib=self.limit_mib
        )
        return assess_memory_pressure(seen)[0]

    def _count_kills(self) -> int | None:
        now = _read_kill_counts(self._above, self.proc)
        kills = [count - self._before[file] for file, count in now.items() if file in self._before]
        return max(kills, default=None)


@contextlib.contextmanager
def monitor_memory() -> Iterator[MemoryMonitor]:
    """A witness for as long as the block is at work."""
    seen = MemoryMonitor()
    with contextlib.suppress(OSError, ValueError):
        seen.start_counting()
    thread = threading.Thread(target=seen.poll_memory, name="witness", daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        seen.stop_polling()


def write_facts(log: Path, facts: RunFacts) -> None:
    """Beside the log, for `doit diagnose` later; a full disk is no further failure."""
    with contextlib.suppress(OSError):
        write_atomic(_resolve_facts_path(log), format_canonical_json(convert_to_json(facts)))


def read_facts(log: Path) -> RunFacts | None:
    """The facts of the log, None where there are none or the log is not as it was then."""
    try:
        found = json.loads(_resolve_facts_path(log).read_text(encoding="utf-8"))
        known = {one.name for one in fields(RunFacts)}
        facts = RunFacts(**{name: value for name, value in found.items() if name in known})
        return facts if facts.size == log.stat().st_size else None
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def _resolve_facts_path(log: Path) -> Path:
    return log.with_suffix(".facts.json")


def _read_kill_counts(above: tuple[capacity.ControlGroup, ...], proc: Path) -> dict[Path, int]:
    """How many programs the kernel has ended for want of memory, by who counts; v1 does not count
    those of groups below.
    """
    found = {}
    for file in (
        *(group.folder / _OOM_COUNTER_FILES[group.version] for group in above),
        proc / "vmstat",
    ):
        with contextlib.suppress(OSError, ValueError):
            for line in file.read_text(encoding="ascii").splitlines():
                if line.startswith("oom_kill "):
                    found[file] = int(line.split()[1])
    return found
