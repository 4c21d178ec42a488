"""Ninja's `[n/m]` lines as progress with an estimate. Pure: the time is given.

Ninja counts again from zero when it first remakes its own build files; a new total therefore starts
a new estimate.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tasks.duration import elapsed

_STEP = re.compile(r"\[(\d+)/(\d+)\]")


@dataclass(frozen=True)
class Progress:
    """`done` of `total` steps; `eta` in seconds at the rate so far, None before there is one."""

    done: int
    total: int
    eta: float | None = None

    def __str__(self) -> str:
        text = f"{self.done}/{self.total} ({100 * self.done // self.total} %)"
        return text if self.eta is None else f"{text}, {elapsed(self.eta)} left"


@dataclass
class Meter:
    """Reads the lines of one build as they come."""

    _total: int = 0
    _first: int = 0
    _since: float = 0.0

    def feed(self, line: str, now: float) -> Progress | None:
        """Progress after a line that tells it, else None; `now` in seconds of a steady clock."""
        found = _STEP.match(line)
        if not found or not int(found[2]):
            return None
        done, total = int(found[1]), int(found[2])
        if total != self._total or done < self._first:
            self._total, self._first, self._since = total, done, now
        return Progress(done, total, self._eta(done, now))

    def _eta(self, done: int, now: float) -> float | None:
        steps = done - self._first
        if steps <= 0 or now <= self._since:
            return None
        return (self._total - done) * (now - self._since) / steps
