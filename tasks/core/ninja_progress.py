"""Turn Ninja's `[n/m]` lines into progress, with an estimate of the time left.

During a run, Ninja may start its count again and may lower the total.
"""

import re
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Self

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
    """A step line such as `[3/9] Building CXX object x.cpp.o`."""

    done: int
    total: int
    text: str


def parse_ninja_step(line: str) -> NinjaStep | None:
    """Parse a Ninja step line. Return None for any other line."""
    match = _STEP_LINE.match(line)
    return NinjaStep(int(match[1]), int(match[2]), match[3] or "") if match else None


def find_step_output(line: str) -> str:
    """Return the output file that a step line names, "" if it names none."""
    match = _STEP_OUTPUT.search(line) or _COMMAND_OUTPUT.search(line)
    return match[1] if match else ""


def find_failed_output(line: str) -> str:
    """Return the first output file that a `FAILED:` line names, "" for any other line."""
    match = _FAILED_LINE.match(line)
    return match[1] if match else ""


_ESTIMATE_BASIS = (20.0, 10)  # seconds and steps; a quarter of the steps is enough in a short build
_RECENT_STEPS = 100  # the rate of the latest steps counts as much as the rate of the whole run
_LOG_INTERVAL = 60.0  # seconds between two lines in a log
_STALL_SECONDS = 120.0  # a longer time without a finished step is reported


@dataclass(frozen=True)
class Progress:
    """The state of a build after a step.

    `done` and `total` count steps; 0 means an unknown total. `eta` is in seconds. `at_work`
    describes the running jobs. `silent` is the time in seconds since the last step finished.
    """

    done: int
    total: int
    eta: float | None = None
    at_work: BuildActivity = field(default_factory=BuildActivity)
    silent: float = 0.0

    @property
    def stall_message(self) -> str:
        """Describe a stall of two minutes or more and its reason; "" without a stall."""
        if self.silent < _STALL_SECONDS or self.at_work.jobs == 0:
            return ""
        text = f"no compiler has finished for {format_rough_duration(self.silent)}"
        return ": ".join(filter(None, (text, self.at_work.memory_shortage)))

    @property
    def percent(self) -> int:
        """Return the percentage of finished steps, rounded down."""
        return 100 * self.done // self.total

    @property
    def time_left(self) -> str:
        """Return the estimated time, such as `31 min left`, "" without an estimate."""
        return f"{format_rough_duration(self.eta)} left" if self.eta is not None else ""

    @property
    def without_activity(self) -> Self:
        """Return this progress without the running jobs."""
        return replace(self, at_work=BuildActivity())

    def advance_time(self, seconds: float) -> Self:
        """Return this progress `seconds` later, without an estimate once its end has passed."""
        eta = self.eta - seconds if self.eta is not None and seconds < self.eta else None
        return replace(self, eta=eta, silent=self.silent + seconds)

    def __str__(self) -> str:
        remaining = f"about {self.time_left}" if self.time_left else ""
        count = f"{self.done}/{self.total} ({self.percent} %)" if self.total else ""
        return ", ".join(filter(None, (count, remaining, str(self.at_work), self.stall_message)))


@dataclass
class ProgressMeter:
    """The progress of one build, computed from its output lines."""

    _total: int = 0
    _start: tuple[float, int] = (0.0, 0)
    _last: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=_RECENT_STEPS + 1))

    def read_line(self, line: str, now: float) -> Progress | None:
        """Return the progress after a step line, `None` for any other line.

        `now` is a monotonic time in seconds. A Ninja run of only one step is ignored.
        """
        step = parse_ninja_step(line)
        if not step or step.total < 2:
            return None
        done, total = step.done, step.total
        if not self._last or total > self._total or done < self._last[-1][1]:
            self._start = (now, done)
            self._last.clear()
        self._total = total
        if not self._last or done > self._last[-1][1]:
            self._last.append((now, done))
        seconds, steps = now - self._start[0], done - self._start[1]
        min_seconds, min_steps = _ESTIMATE_BASIS
        if done == total or seconds < min_seconds or steps < min(min_steps, total / 4):
            return Progress(done, total)
        recent_time, recent_count = self._last[0]
        recent_pace = (now - recent_time) / (done - recent_count)  # seconds a step
        return Progress(done, total, (total - done) * (seconds / steps + recent_pace) / 2)


@dataclass
class ProgressThrottle:
    """A limit for progress lines in a log: one a minute, and none in the first minute."""

    _when: float = 0.0

    def should_log(self, progress: Progress, took: float) -> bool:
        """Return True if `progress` should be logged, `took` seconds after the stage began."""
        if took < self._when + _LOG_INTERVAL or 0 < progress.total == progress.done:
            return False
        self._when = took
        return True
