"""What a build says while it is at work, told as ticks: how far Ninja is, and the file in short."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tasks.effects.buildlines import subject
from tasks.effects.voice import tick
from tasks.forecast import Forecast
from tasks.progress import Meter


def follow(
    forecast: Forecast | None = None, notes: Callable[[], str] = str
) -> Callable[[str], None]:
    """For `shell.run`: it takes every line of one command. A `forecast` knows better what is left
    than the count does; `notes` tells what is at work, asked with each step.
    """
    return _Follower(forecast=forecast, notes=notes).take


@dataclass
class _Follower:
    """While Ninja counts, only its own lines are told: what compilers say goes to the log. CMake's
    `--` means that Ninja is done, also where it never came to the last step.
    """

    meter: Meter = field(default_factory=Meter)
    counting: bool = False
    forecast: Forecast | None = None
    notes: Callable[[], str] = str

    def take(self, line: str) -> None:
        now = time.monotonic()
        text, progress = subject(line), self.meter.feed(line, now)
        if progress:
            progress = replace(progress, eta=self._eta(line, now, progress.eta), notes=self.notes())
            self.counting = progress.done < progress.total
        elif line.lstrip().startswith("-- "):
            self.counting = False
        if text and (progress or not self.counting):
            tick(text, progress)

    def _eta(self, line: str, now: float, by_count: float | None) -> float | None:
        if not self.forecast:
            return by_count
        self.forecast.finish(line, now)
        left = self.forecast.left(now)
        return by_count if left is None else left
