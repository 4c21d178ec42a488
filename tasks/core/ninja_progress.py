"""Ninja's `[n/m]` lines as progress, with an estimate where there is a basis for one.

Ninja counts again from the start when it has remade its own build files, and takes steps off the
total in the middle of a run when they turn out to be up to date. Steps differ a hundredfold, so an
estimate is worded coarsely and none is given before `_BASIS`.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field, replace

from tasks.core.build_activity import BuildActivity
from tasks.core.text_formatting import format_rough_duration

_STEP_LINE = re.compile(r"\s*\[(\d+)/(\d+)\](?:\s+(.*)|$)", re.DOTALL)
_FAILED_LINE = re.compile(r"\s*FAILED: (?:\[code=-?\d+\] )?(\S+)")
_STEP_OUTPUT = re.compile(
    r"(?:Building \S+ object|Linking \S+ .*?(?:library|executable|module)) (\S+)"
)
_COMMAND_OUTPUT = re.compile(r"\s(?:-o\s+|/Fo)(\S+)")


@dataclass(frozen=True)
class NinjaStep:
    """`[3/9] Building CXX object x.cpp.o`."""

    done: int
    total: int
    text: str


def parse_ninja_step(line: str) -> NinjaStep | None:
    """What a line tells of a step, None where it is of none."""
    found = _STEP_LINE.match(line)
    return NinjaStep(int(found[1]), int(found[2]), found[3] or "") if found else None


def find_step_output(line: str) -> str:
    """The output that a step is about, "" where it names none."""
    found = _STEP_OUTPUT.search(line) or _COMMAND_OUTPUT.search(line)
    return found[1] if found else ""


def find_failed_output(line: str) -> str:
    """The output that could not be made, the first where a line names several; "" in any other."""
    found = _FAILED_LINE.match(line)
    return found[1] if found else ""


_ESTIMATE_BASIS = (20.0, 10)  # seconds and steps; of a short build a quarter of its steps will do
_RECENT_STEPS = 100  # steps whose rate counts as much as that of the whole run
_LOG_INTERVAL = 60.0  # seconds between two lines in a log
_STALL_SECONDS = 120.0  # seconds without a finished step that are reported


@dataclass(frozen=True)
class Progress:
    """`done` of `total` steps; `eta` in seconds, None where nothing can be said; what was `at_work`
    then. No step has ended for `silent` seconds. `total` is 0 until it is known.
    """

    done: int
    total: int
    eta: float | None = None
    at_work: BuildActivity = field(default_factory=BuildActivity)
    silent: float = 0.0

    @property
    def stall_message(self) -> str:
        """Return how long no step has finished, and why; "" if that is less than two minutes."""
        if self.silent < _STALL_SECONDS or self.at_work.jobs == 0:
            return ""
        why = self.at_work.memory_shortage
        text = f"no compiler has finished for {format_rough_duration(self.silent)}"
        return f"{text}: {why}" if why else text

    @property
    def percent(self) -> int:
        """Full percents."""
        return 100 * self.done // self.total

    @property
    def time_left(self) -> str:
        """`31 min left`, "" where nothing can be said."""
        return f"{format_rough_duration(self.eta)} left" if self.eta is not None else ""

    @property
    def without_activity(self) -> Progress:
        """The same without what was at work."""
        return replace(self, at_work=BuildActivity())

    def advance_time(self, seconds: float) -> Progress:
        """The same, told that much later. A step that outlasts the whole estimate disproves it."""
        eta = self.eta - seconds if self.eta is not None and seconds < self.eta else None
        return replace(self, eta=eta, silent=self.silent + seconds)

    def __str__(self) -> str:
        left = f"about {self.time_left}" if self.time_left else ""
        count = f"{self.done}/{self.total} ({self.percent} %)" if self.total else ""
        return ", ".join(filter(None, (count, left, str(self.at_work), self.stall_message)))


@dataclass
class ProgressMeter:
    """Reads the lines of one build as they come."""

    _total: int = 0
    _start: tuple[float, int] = (0.0, 0)
    _last: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=_RECENT_STEPS + 1))

    def read_line(self, line: str, now: float) -> Progress | None:
        """Progress after a line that tells it, else None; `now` in seconds of a steady clock. One
        step alone (Ninja that runs CMake, or the install) is no progress.
        """
        found = parse_ninja_step(line)
        if not found or found.total < 2:
            return None
        done, total = found.done, found.total
        if not self._last or total > self._total or done < self._last[-1][1]:
            self._start = (now, done)
            self._last.clear()
        self._total = total
        if not self._last or done > self._last[-1][1]:
            self._last.append((now, done))
        return Progress(done, total, self._estimate_seconds_left(now, done))

    def _estimate_seconds_left(self, now: float, done: int) -> float | None:
        seconds, steps = now - self._start[0], done - self._start[1]
        if (
            done == self._total
            or seconds < _ESTIMATE_BASIS[0]
            or steps < min(_ESTIMATE_BASIS[1], self._total / 4)
        ):
            return None
        return (self._total - done) * (seconds / steps + self._compute_recent_pace(now, done)) / 2

    def _compute_recent_pace(self, now: float, done: int) -> float:
        since, first = self._last[0]
        return (now - since) / (done - first)  # seconds a step


@dataclass
class ProgressThrottle:
    """Which progress is worth a line in a log: one a minute, none of a build that takes less."""

    _when: float = 0.0

    def should_log(self, progress: Progress, took: float) -> bool:
        """Whether this one is, `took` seconds after the stage began."""
        if took < self._when + _LOG_INTERVAL or 0 < progress.total == progress.done:
            return False
        self._when = took
        return True
