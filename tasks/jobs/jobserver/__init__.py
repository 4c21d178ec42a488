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

from tasks.core.jobs import BuildSnapshot, GovernorDecision, Job
from tasks.jobs.jobserver.edges import RunningEdges
from tasks.jobs.jobserver.keeper import JobserverController
from tasks.jobs.jobserver.tokens import open_job_tokens
from tasks.system.voice import bind_current_context

TICK = 0.25  # seconds
_MIN_NINJA = (1, 13)  # https://github.com/ninja-build/ninja/releases/tag/v1.13.0


class Jobserver:
    """What a build gets, and what is known of it.

    `peaks` are there after it: MiB by output, of builds of this run.
    """

    def __init__(self, most: int, keeper: JobserverController | None = None) -> None:
        self.peaks: dict[str, int] = {}
        self._most = most
        self._controller = keeper

    def build_environment(self) -> dict[str, str]:
        """For the build's children; MAX_JOBS and its like must not be set beside it."""
        if not self._controller:
            return {}
        return {"MAKEFLAGS": f" -j{self._most} --jobserver-auth={self._controller.tokens.auth}"}

    @property
    def in_use(self) -> int:
        """Jobs at work, of all builds in the pool."""
        return self._controller.in_use if self._controller else 0

    @property
    def peak_jobs(self) -> int:
        """The most jobs that were at work at once, of all builds in the pool."""
        return self._controller.busiest if self._controller else 0

    @property
    def at_work(self) -> tuple[Job, ...]:
        """The jobs themselves, as they were when they were last looked at."""
        return self._controller.at_work if self._controller else ()

    @property
    def withheld_jobs(self) -> int:
        """Jobs fewer than the most, for want of memory."""
        return self._controller.withheld_jobs if self._controller else 0


def is_supported_ninja(ninja_version: str) -> bool:
    """Whether that Ninja obeys the pool."""
    found = re.match(r"(\d+)\.(\d+)", ninja_version)
    return found is not None and (int(found[1]), int(found[2])) >= _MIN_NINJA


@contextlib.contextmanager
def join_jobserver(
    folder: Path,
    most: int,
    decide: Callable[[BuildSnapshot], GovernorDecision],
    expected: Mapping[str, int],
    tick: float = TICK,
) -> Iterator[Jobserver]:
    """A share in the pool of `folder` for as long as a build runs. `expected` holds the peaks of
    the last build; where this one does not come to its end, the larger of both are the new ones.
    Jobs of another's build, should this one govern, are foreseen by their kind.
    """
    with open_job_tokens(folder) as (tokens, chair):
        keeper = JobserverController(
            tokens, chair, RunningEdges(tokens.auth, expected), decide, most
        )
        shared = Jobserver(most, keeper)
        keeper.take_first_sample()
        govern = bind_current_context(keeper.run_loop)
        thread = threading.Thread(target=govern, args=(tick,), name="jobserver", daemon=True)
        thread.start()
        try:
            yield shared
            shared.peaks = keeper.stop_control(thread)
        except BaseException:
            found = keeper.stop_control(thread)
            shared.peaks = {name: max(peak, expected.get(name, 0)) for name, peak in found.items()}
            raise
