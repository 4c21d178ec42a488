"""What goes over a network is tried again while that may help, and each time that is said."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tasks.system.voice import print_line

RETRY_PAUSES = (2.0, 8.0)  # seconds before the second and the third try

_T = TypeVar("_T")


@dataclass(frozen=True)
class RetryClock:
    """How a pause is made. It is up to half as long again, by `spread` from 0 to 1: machines that
    lost a server at the same moment do not all come back at the same one.
    """

    sleep: Callable[[float], None] = time.sleep
    spread: Callable[[], float] = random.random

    def compute_pause(self, seconds: float) -> float:
        """How long it is."""
        return seconds * (1 + self.spread() / 2)


def retry_action(
    what: str,
    action: Callable[[], _T],
    passing: Callable[[Exception], str],
    pauses: tuple[float, ...] | None = None,
    clock: RetryClock = RetryClock(),
) -> _T:
    """Do it, and again after each pause while `passing` gives a reason why that may help. What was
    raised last is raised.
    """
    waits = [*(RETRY_PAUSES if pauses is None else pauses)]
    for number, pause in enumerate(waits, 2):
        try:
            return action()
        except Exception as error:
            if not (reason := passing(error)):
                raise
        seconds = clock.compute_pause(pause)
        print_line(
            f"{what}: {reason}; trying again in {seconds:.0f} s ({number} of {len(waits) + 1})"
        )
        clock.sleep(seconds)
    return action()
