"""What a build says while it is at work, told as ticks: how far Ninja is, and the file in short."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tasks.effects.buildlines import subject
from tasks.effects.voice import tick
from tasks.progress import Meter


def follow() -> Callable[[str], None]:
    """For `shell.run`: it takes every line of one command."""
    return _Follower().take


@dataclass
class _Follower:
    """While Ninja counts, only its own lines are told: what compilers say goes to the log. CMake's
    `--` means that Ninja is done, also where it never came to the last step.
    """

    meter: Meter = field(default_factory=Meter)
    counting: bool = False

    def take(self, line: str) -> None:
        text, progress = subject(line), self.meter.feed(line, time.monotonic())
        if progress:
            self.counting = progress.done < progress.total
        elif line.lstrip().startswith("-- "):
            self.counting = False
        if text and (progress or not self.counting):
            tick(text, progress)
