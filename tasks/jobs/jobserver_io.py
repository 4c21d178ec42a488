"""The tokens that nobody holds, one for each job that may start, and the governor's chair: a pipe
and a lock on POSIX, a semaphore and a name on Windows.
"""

from __future__ import annotations

import contextlib
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from tasks.core.build_activity import BuildSnapshot, GovernorDecision, Job
from tasks.jobs.job_processes_io import PausedJobs
from tasks.jobs.running_edges_io import JobsSnapshot, RunningEdges
from tasks.runlog.memory_monitor_io import MEMORY_MONITOR
from tasks.system.output import bind_current_context, print_warning


class JobTokens(Protocol):
    """Only `wait` does. What GNU make's --jobserver-auth says of them is `auth`."""

    auth: str

    @property
    def stopped(self) -> bool:
        """Whether nobody is to wait any more."""

    def count_tokens(self) -> int:
        """Those that are there."""

    def take_tokens(self, wanted: int) -> int:
        """How many there were, `wanted` at most."""

    def return_tokens(self, tokens: int) -> None:
        """Give them back."""

    def wait_for_tokens(self, seconds: float, wanted: int) -> int:
        """Until there are any of those that are `wanted`, or `stop`; how many were taken."""

    def stop_waiting(self) -> None:
        """Let nobody wait any more."""


class LeaderLock(Protocol):
    """The governor's: one process has it."""

    taken: bool

    def acquire_lead(self) -> bool:
        """Whether it is ours, now or since before."""

    def close(self) -> None:
        """Leave it to the next."""


def open_job_tokens(folder: Path) -> AbstractContextManager[tuple[JobTokens, LeaderLock]]:
    """Be one of those that build in `folder`; there are no tokens where nobody else does."""
    if sys.platform == "win32":
        from tasks.jobs import windows_tokens_io as system  # noqa: PLC0415 - of Windows
    else:
        from tasks.jobs import posix_tokens_io as system  # noqa: PLC0415 - of POSIX
    return system.open_tokens(folder)


_AUDIT_SAMPLES = 8  # moments that must agree before tokens count as lost, or as too many


class JobserverController:
    """Of `total` tokens, those that it holds are withheld; the others lie there or are at
    work. Who has not the governor's chair only looks.
    """

    def __init__(
        self,
        tokens: JobTokens,
        chair: LeaderLock,
        edges: RunningEdges,
        decide: Callable[[BuildSnapshot], GovernorDecision],
        most: int,
    ) -> None:
        self.tokens = tokens
        self.in_use = self.busiest = 0
        self.at_work: tuple[Job, ...] = ()
        self._leader_lock = chair
        self._edges = edges
        self._decide = decide
        self._most = most
        self._pauses = PausedJobs()
        self._failed = self._unsure = False
        self._withheld = 0
        self._owed = 0  # to be withheld as soon as they come back
        self._granted = time.monotonic()
        self._audit_counts: deque[tuple[int, int]] = deque(maxlen=_AUDIT_SAMPLES)

    @property
    def withheld_jobs(self) -> int:
        """Tokens held, here or by another governor."""
        return (
            self._withheld if self._leader_lock.taken else self._count_missing_tokens(self.in_use)
        )

    def take_first_sample(self) -> None:
        """The first moment, before any build: there are no tokens yet."""
        self._run_safely(self._govern_once)

    def run_loop(self, tick: float) -> None:
        """Until `end`, a moment every `tick` seconds."""
        self._run_safely(lambda: self._govern_until_stopped(tick))

    def stop_control(self, thread: threading.Thread) -> dict[str, int]:
        """Stop, give everything back; peaks in MiB by output. Once more where an interrupt came in
        between.
        """
        self.tokens.stop_waiting()
        thread.join()
        self._run_safely(self._sample_last_time)
        self._release_tokens()
        return self._edges.peaks

    def _run_safely(self, work: Callable[[], None]) -> None:
        """Once something fails there is no governor here any more, and nothing is withheld."""
        if self._failed:
            return
        try:
            work()
        except Exception as bug:  # noqa: BLE001 - a build must not hang for a bug of ours
            self._failed = True
            self.at_work = ()  # nobody looks any more
            print_warning(f"jobs are not held back by memory any more: {type(bug).__name__}: {bug}")
            with contextlib.suppress(OSError):  # it may be what failed
                if self._leader_lock.acquire_lead() and not self._unsure:
                    self._withheld = max(self._withheld, self._count_missing_tokens(self.in_use))
            self._release_tokens()
            self._leader_lock.close()
            self.in_use = 0

    def _sample_last_time(self) -> None:
        self._edges.sample_jobs(time.monotonic())

    def _govern_until_stopped(self, tick: float) -> None:
        while not self._wait_until(time.monotonic() + tick):
            self._govern_once()

    def _govern_once(self) -> None:
        now = time.monotonic()
        moment = self._edges.sample_jobs(now, self._pauses.since)
        self.in_use = len(moment.jobs)
        self.busiest = max(self.busiest, self.in_use)
        self.at_work = moment.jobs
        self._unsure = moment.unsure
        if not self._leader_lock.taken:
            if not self._leader_lock.acquire_lead():
                return
            # what a make holds is not missing: once it is gone the audit tells what is
            self._withheld = 0 if moment.unsure else self._count_missing_tokens(moment.most)
        self._audit_tokens(moment)
        self._apply_verdict(self._decide(self._build_view(moment, now)), moment, now)

    def _build_view(self, moment: JobsSnapshot, now: float) -> BuildSnapshot:
        there = MEMORY_MONITOR.read_memory()  # as new as the sizes of the jobs
        return BuildSnapshot(
            limit_mib=there.limit_mib,
            available_mib=there.available_mib,
            running=moment.jobs,
            idle=self.tokens.count_tokens() + (moment.idle if moment.ninjas else 1),
            most=self._most,
            shown=self._edges.shown,
            since_grant=now - self._granted,
        )

    def _apply_verdict(self, verdict: GovernorDecision, moment: JobsSnapshot, now: float) -> None:
        self._pauses.set_paused_jobs(verdict.paused, now)
        out = max(0, verdict.jobs - max(1, moment.ninjas)) + self._count_make_tokens(moment)
        out = min(self._total, out)
        self._owed = max(0, self._total - out - self._withheld)
        surplus = self._withheld - (self._total - out)
        if surplus > 0:
            self.tokens.return_tokens(surplus)
            self._withheld -= surplus
            self._granted = now
        self._add_withheld(self.tokens.take_tokens(self._owed))

    def _count_make_tokens(self, moment: JobsSnapshot) -> int:
        """Tokens that a make holds for jobs that nobody sees: not to be had from others."""
        if not moment.unsure:
            return 0
        return max(0, self._total - self.tokens.count_tokens() - self._withheld - moment.least)

    def _add_withheld(self, taken: int) -> None:
        self._withheld += taken
        self._owed -= taken

    def _wait_until(self, until: float) -> bool:
        """True when it is to stop. Tokens that are owed are taken as they come back."""
        while (left := until - time.monotonic()) > 0 and not self.tokens.stopped:
            self._add_withheld(self.tokens.wait_for_tokens(left, self._owed))
        return self.tokens.stopped

    def _audit_tokens(self, moment: JobsSnapshot) -> None:
        """Tokens that a killed build took with it are held from now on, so that the governor can
        hand them out; of too many the rest is thrown away.
        """
        there = self.tokens.count_tokens() + self._withheld
        lost = 0 if moment.unsure else self._total - there - moment.most
        self._audit_counts.append((lost, there + moment.least - self._total))
        if len(self._audit_counts) < _AUDIT_SAMPLES:
            return
        lost, extra = (min(counts) for counts in zip(*self._audit_counts, strict=True))
        if lost > 0 or extra > 0:
            self._audit_counts.clear()
        if lost > 0:
            self._withheld += lost
        elif extra > 0:
            ours = min(extra, self._withheld)
            self._withheld -= ours
            self.tokens.take_tokens(extra - ours)

    def _count_missing_tokens(self, at_work: int) -> int:
        return max(0, self._total - self.tokens.count_tokens() - at_work)

    def _release_tokens(self) -> None:
        self._pauses.close()
        self.tokens.return_tokens(self._withheld)
        self._withheld = self._owed = 0

    @property
    def _total(self) -> int:
        return self._most - 1  # Ninja's own job is the one more


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
