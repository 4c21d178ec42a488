"""What a build says while it is at work, told as ticks: how far Ninja is, and the file in short."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tasks.effects.buildlines import subject
from tasks.effects.voice import tick
from tasks.forecast import Forecast
from tasks.progress import Meter


def follow(forecast: Forecast | None = None) -> Callable[[str], None]:
    """For `shell.run`: it takes every line of one command. A `forecast` knows better what is left
    than the count does.
    """
    if forecast:
        forecast.begin(time.monotonic())
    return _Follower(forecast=forecast).take


@dataclass
class _Follower:
    """While Ninja counts, only its own lines are told: what compilers say goes to the log. CMake's
    `--` means that Ninja is done, also where it never came to the last step.
    """

    meter: Meter = field(default_factory=Meter)
    counting: bool = False
    forecast: Forecast | None = None

    def take(self, line: str) -> None:
        now = time.monotonic()
        text, progress = subject(line), self.meter.feed(line, now)
        if progress and self.forecast:
            self.forecast.finish(line)
            left = self.forecast.left(now)
            progress = progress if left is None else replace(progress, eta=left)
        if progress:
            self.counting = progress.done < progress.total
        elif line.lstrip().startswith("-- "):
            self.counting = False
        if text and (progress or not self.counting):
            tick(text, progress)
