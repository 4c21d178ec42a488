"""Measure the available memory during stages and builds, and save the facts of a failed command."""

from __future__ import annotations

import json
import math
import re
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path

from tasks.core.canonical_json import convert_to_json, format_canonical_json
from tasks.diagnosis.run_facts import RunFacts, assess_memory_pressure
from tasks.system.files import write_atomic
from tasks.system.hardware import capacity

_POLL_INTERVAL = 0.5  # seconds
_OOM_COUNTER_FILES = {1: "memory.oom_control", 2: "memory.events"}
_OOM_KILLS = re.compile(r"^oom_kill (.*)$", re.MULTILINE)
_MIB = 2**20


class MemoryMonitor:
    """A reader of the available memory, with a thread that reads it while observers exist."""

    def __init__(self, proc: Path = capacity.PROC) -> None:
        self.proc = proc
        self._lock = threading.Lock()
        self._observers: list[ObservedMemory] = []
        self._over = threading.Event()
        self._last = capacity.MemoryReading(0, 0)
        self._measured = -math.inf

    def read_memory(self, max_age: float = 0.0) -> capacity.MemoryReading:
        """Return a memory reading. While observers exist, it may be up to `max_age` seconds old."""
        with self._lock:
            now = time.monotonic()
            if not self._observers or now - self._measured >= max_age:
                self._last = capacity.measure_memory(self._groups, self.proc)
                self._measured = now
                for observer in self._observers:
                    observer.add_reading(self._last)
            return self._last

    @contextmanager
    def observe_memory(self) -> Iterator[ObservedMemory]:
        """Yield an observer that collects memory readings until the `with` block ends."""
        observer = ObservedMemory(self)
        with suppress(OSError, ValueError):
            observer.kills_before = self.read_kill_counts()
        with self._lock:
            if not self._observers:
                self._over = threading.Event()
                args = (self._over,)
                threading.Thread(target=self._poll, args=args, name="memory", daemon=True).start()
            self._observers.append(observer)
        try:
            with suppress(OSError, ValueError):
                self.read_memory()
            yield observer
        finally:
            with self._lock:
                self._observers.remove(observer)
                if not self._observers:
                    self._over.set()

    def read_kill_counts(self) -> dict[Path, int]:
        """Return how many processes the kernel killed for lack of memory, by counter file."""
        counts = {}
        files = (group.folder / _OOM_COUNTER_FILES[group.version] for group in self._groups)
        for file in (*files, self.proc / "vmstat"):
            with suppress(OSError, ValueError):
                text = file.read_text(encoding="ascii")
                if match := _OOM_KILLS.search(text):
                    counts[file] = int(match[1])
        return counts

    def _poll(self, over: threading.Event) -> None:
        while not over.wait(_POLL_INTERVAL):
            with suppress(OSError, ValueError):
                self.read_memory(_POLL_INTERVAL)

    @cached_property
    def _groups(self) -> tuple[capacity.ControlGroup, ...]:
        return capacity.find_control_groups(self.proc)  # do not change while the process runs


MEMORY_MONITOR = MemoryMonitor()


@dataclass(eq=False)
class ObservedMemory:
    """The lowest available memory during a stage or build, and the OOM kill counts at its start."""

    monitor: MemoryMonitor = MEMORY_MONITOR
    lowest_mib: int | None = None
    limit_mib: int | None = None
    kills_before: Mapping[Path, int] = field(default_factory=dict)

    def add_reading(self, reading: capacity.MemoryReading) -> None:
        """Store the reading if it has the lowest available memory so far."""
        if self.lowest_mib is None or reading.available_mib < self.lowest_mib:
            self.lowest_mib, self.limit_mib = reading.available_mib, reading.limit_mib

    def collect_facts(self, log: Path) -> RunFacts:
        """Return the facts of a failed command: memory, the size of the log, free disk space."""
        free = shutil.disk_usage(log.parent).free // _MIB
        return replace(self._collect_memory_facts(), size=log.stat().st_size, free_mib=free)

    def is_memory_short(self) -> bool | None:
        """Return True if memory was short so far, `None` if that is uncertain."""
        return assess_memory_pressure(self._collect_memory_facts())[0]

    def _collect_memory_facts(self) -> RunFacts:
        now, before = self.monitor.read_kill_counts(), self.kills_before
        kills = max((now[file] - before[file] for file in now.keys() & before), default=None)
        return RunFacts(kills=kills, lowest_mib=self.lowest_mib, limit_mib=self.limit_mib)


def write_facts(log: Path, facts: RunFacts) -> None:
    """Write the facts next to the log, for a later `doit diagnose`. Write errors are ignored."""
    with suppress(OSError):
        write_atomic(_resolve_facts_path(log), format_canonical_json(convert_to_json(facts)))


def read_facts(log: Path) -> RunFacts | None:
    """Return the saved facts of the log, `None` if they are missing or the log changed later."""
    try:
        document = json.loads(_resolve_facts_path(log).read_text(encoding="utf-8"))
        names = document.keys() & {item.name for item in fields(RunFacts)}
        facts = RunFacts(**{name: document[name] for name in names})
        return facts if facts.size == log.stat().st_size else None
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def _resolve_facts_path(log: Path) -> Path:
    return log.with_suffix(".facts.json")
