"""One pool of jobs for every build of the checkout, held open by memory: a GNU make jobserver that
Ninja ≥ 1.13 obeys where it is given no number of jobs, a pipe on POSIX and a named semaphore on
Windows.

A governor decides four times a second how many jobs may run; what is above that it withholds, by
taking tokens before Ninja does. That works at the end of a job, and a job that ends makes way at
once for one that may be twenty times as large; so jobs that do not fit are stopped as well, and go
on when there is room; on Linux, that is. Each Ninja has one job that needs no token, and one of all
jobs is never stopped. With k Ninjas at work there are never more than most − 1 + k jobs, and no
more than `most` once the governor has taken back a token for each Ninja after the first.

A Ninja before 1.14 looks for tokens only when a job of its own ends. A GNU make before 4.4 that is
run without -j inside a build stops at a pipe of this kind; with -jN it says that it leaves it
alone.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tasks.core.jobs import Job, Verdict, View
from tasks.jobs.jobserver.edges import Edges
from tasks.jobs.jobserver.keeper import Keeper
from tasks.jobs.jobserver.tokens import joined
from tasks.system.voice import for_speaker

TICK = 0.25  # seconds
_SINCE = (1, 13)  # https://github.com/ninja-build/ninja/releases/tag/v1.13.0


class Pool:
    """What a build gets, and what is known of it.

    `peaks` are there after it: MiB by output, of builds of this run.
    """

    def __init__(self, most: int, keeper: Keeper | None = None) -> None:
        self.peaks: dict[str, int] = {}
        self._most = most
        self._keeper = keeper

    def environment(self) -> dict[str, str]:
        """For the build's children; MAX_JOBS and its like must not be set beside it."""
        if not self._keeper:
            return {}
        return {"MAKEFLAGS": f" -j{self._most} --jobserver-auth={self._keeper.tokens.auth}"}

    @property
    def in_use(self) -> int:
        """Jobs at work, of all builds in the pool."""
        return self._keeper.in_use if self._keeper else 0

    @property
    def busiest(self) -> int:
        """The most jobs that were at work at once, of all builds in the pool."""
        return self._keeper.busiest if self._keeper else 0

    @property
    def at_work(self) -> tuple[Job, ...]:
        """The jobs themselves, as they were when they were last looked at."""
        return self._keeper.at_work if self._keeper else ()

    @property
    def withheld(self) -> int:
        """Jobs fewer than the most, for want of memory."""
        return self._keeper.withheld if self._keeper else 0


def usable(ninja_version: str) -> bool:
    """Whether that Ninja obeys the pool."""
    found = re.match(r"(\d+)\.(\d+)", ninja_version)
    return found is not None and (int(found[1]), int(found[2])) >= _SINCE


@contextlib.contextmanager
def pool(
    folder: Path,
    most: int,
    decide: Callable[[View], Verdict],
    expected: Mapping[str, int],
    tick: float = TICK,
) -> Iterator[Pool]:
    """A share in the pool of `folder` for as long as a build runs. `expected` holds the peaks of
    the last build; where this one does not come to its end, the larger of both are the new ones.
    Jobs of another's build, should this one govern, are foreseen by their kind.
    """
    with joined(folder) as (tokens, chair):
        keeper = Keeper(tokens, chair, Edges(tokens.auth, expected), decide, most)
        shared = Pool(most, keeper)
        keeper.begin()
        govern = for_speaker(keeper.run)
        thread = threading.Thread(target=govern, args=(tick,), name="jobserver", daemon=True)
        thread.start()
        try:
            yield shared
            shared.peaks = keeper.end(thread)
        except BaseException:
            found = keeper.end(thread)
            shared.peaks = {name: max(peak, expected.get(name, 0)) for name, peak in found.items()}
            raise
