"""Share job tokens between the builds of a folder, one of which governs how many are available.

The tokens are a pipe and the leader lock is a file lock on POSIX; on Windows they are a semaphore
and a named event.
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
    """The free tokens of a jobserver, one for each job that may start.

    Only `wait_for_tokens` blocks. `auth` is the value of GNU make's --jobserver-auth.
    """

    auth: str

    @property
    def stopped(self) -> bool:
        """Whether waiting was ended by `stop_waiting`."""

    def count_tokens(self) -> int:
        """Return the number of free tokens."""

    def take_tokens(self, wanted: int) -> int:
        """Take up to `wanted` tokens without waiting; return how many were taken."""

    def return_tokens(self, tokens: int) -> None:
        """Return tokens to the jobserver."""

    def wait_for_tokens(self, seconds: float, wanted: int) -> int:
        """Wait for tokens and take up to `wanted`; return how many were taken.

        Returns 0 after `seconds`, and as soon as `stop_waiting` is called.
        """

    def stop_waiting(self) -> None:
        """End the current wait, and prevent further ones."""


class LeaderLock(Protocol):
    """The lock that makes one process the governor."""

    taken: bool

    def acquire_lead(self) -> bool:
        """Return True if this process has the lock, now or from an earlier call."""

    def close(self) -> None:
        """Release the lock."""


def open_job_tokens(folder: Path) -> AbstractContextManager[tuple[JobTokens, LeaderLock]]:
    """Join the builds of `folder`; without another build there are no tokens yet."""
    if sys.platform == "win32":
        from tasks.jobs import windows_tokens_io as system  # noqa: PLC0415 - of Windows
    else:
        from tasks.jobs import posix_tokens_io as system  # noqa: PLC0415 - of POSIX
    return system.open_tokens(folder)


_AUDIT_SAMPLES = 8  # samples that must agree before tokens count as lost or as surplus


class JobserverController:
    """The loop that samples the jobs and adjusts the free tokens.

    Of `total` tokens, the withheld ones are kept back; the others are free or used by jobs. Without
    the leader lock the controller only observes.
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
        self._owed = 0  # to be withheld as soon as jobs return them
        self._granted = time.monotonic()
        self._audit_counts: deque[tuple[int, int]] = deque(maxlen=_AUDIT_SAMPLES)

    @property
    def withheld_jobs(self) -> int:
        """The number of tokens withheld, here or by another governor."""
        return (
            self._withheld if self._leader_lock.taken else self._count_missing_tokens(self.in_use)
        )

    def take_first_sample(self) -> None:
        """Take the first sample, before the build starts: there are no tokens yet."""
        self._run_safely(self._govern_once)

    def run_loop(self, tick: float) -> None:
        """Sample and adjust every `tick` seconds until `stop_control`."""
        self._run_safely(lambda: self._govern_until_stopped(tick))

    def stop_control(self, thread: threading.Thread) -> dict[str, int]:
        """Stop the loop, return all withheld tokens, and return the peaks in MiB by output.

        May be called again after an interrupt.
        """
        self.tokens.stop_waiting()
        thread.join()
        self._run_safely(self._sample_last_time)
        self._release_tokens()
        return self._edges.peaks

    def _run_safely(self, work: Callable[[], None]) -> None:
        """Call `work`; after an error give up governing and withhold nothing any longer."""
        if self._failed:
            return
        try:
            work()
        except Exception as bug:  # noqa: BLE001 - a bug here must not hang the build
            self._failed = True
            self.at_work = ()  # no longer sampled
            print_warning(f"jobs are not held back by memory any more: {type(bug).__name__}: {bug}")
            with contextlib.suppress(OSError):  # the lock may be what failed
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
        sample = self._edges.sample_jobs(now, self._pauses.since)
        self.in_use = len(sample.jobs)
        self.busiest = max(self.busiest, self.in_use)
        self.at_work = sample.jobs
        self._unsure = sample.unsure
        if not self._leader_lock.taken:
            if not self._leader_lock.acquire_lead():
                return
            # Tokens that a make holds are not missing; after its end the audit finds the lost ones
            self._withheld = 0 if sample.unsure else self._count_missing_tokens(sample.most)
        self._audit_tokens(sample)
        self._apply_verdict(self._decide(self._build_view(sample, now)), sample, now)

    def _build_view(self, moment: JobsSnapshot, now: float) -> BuildSnapshot:
        memory = MEMORY_MONITOR.read_memory()  # as recent as the sizes of the jobs
        return BuildSnapshot(
            limit_mib=memory.limit_mib,
            available_mib=memory.available_mib,
            running=moment.jobs,
            idle=self.tokens.count_tokens() + (moment.idle if moment.ninjas else 1),
            most=self._most,
            shown=self._edges.shown,
            since_grant=now - self._granted,
        )

    def _apply_verdict(self, verdict: GovernorDecision, moment: JobsSnapshot, now: float) -> None:
        self._pauses.set_paused_jobs(verdict.paused, now)
        available = max(0, verdict.jobs - max(1, moment.ninjas)) + self._count_make_tokens(moment)
        available = min(self._total, available)
        self._owed = max(0, self._total - available - self._withheld)
        surplus = self._withheld - (self._total - available)
        if surplus > 0:
            self.tokens.return_tokens(surplus)
            self._withheld -= surplus
            self._granted = now
        self._add_withheld(self.tokens.take_tokens(self._owed))

    def _count_make_tokens(self, moment: JobsSnapshot) -> int:
        """Return how many tokens a make holds for jobs that cannot be seen.

        Other jobs cannot get these tokens.
        """
        if not moment.unsure:
            return 0
        return max(0, self._total - self.tokens.count_tokens() - self._withheld - moment.least)

    def _add_withheld(self, taken: int) -> None:
        self._withheld += taken
        self._owed -= taken

    def _wait_until(self, until: float) -> bool:
        """Wait and take owed tokens as jobs return them; return True if the loop should stop."""
        while (remaining := until - time.monotonic()) > 0 and not self.tokens.stopped:
            self._add_withheld(self.tokens.wait_for_tokens(remaining, self._owed))
        return self.tokens.stopped

    def _audit_tokens(self, moment: JobsSnapshot) -> None:
        """Correct the number of tokens.

        Tokens that a killed build took with it are added to the withheld ones, so that the governor
        can hand them out. Surplus tokens are discarded.
        """
        token_count = self.tokens.count_tokens() + self._withheld
        lost = 0 if moment.unsure else self._total - token_count - moment.most
        self._audit_counts.append((lost, token_count + moment.least - self._total))
        if len(self._audit_counts) < _AUDIT_SAMPLES:
            return
        lost, excess = (min(counts) for counts in zip(*self._audit_counts, strict=True))
        if lost > 0 or excess > 0:
            self._audit_counts.clear()
        if lost > 0:
            self._withheld += lost
        elif excess > 0:
            withheld = min(excess, self._withheld)
            self._withheld -= withheld
            self.tokens.take_tokens(excess - withheld)

    def _count_missing_tokens(self, at_work: int) -> int:
        return max(0, self._total - self.tokens.count_tokens() - at_work)

    def _release_tokens(self) -> None:
        self._pauses.close()
        self.tokens.return_tokens(self._withheld)
        self._withheld = self._owed = 0

    @property
    def _total(self) -> int:
        return self._most - 1  # Ninja's first job needs no token


TICK = 0.25  # seconds
_MIN_NINJA = (1, 13)  # https://github.com/ninja-build/ninja/releases/tag/v1.13.0


class Jobserver:
    """The jobserver as a build sees it: its environment and its current state.

    `peaks` is set after the build: MiB by output, for builds of this run only.
    """

    def __init__(self, most: int, keeper: JobserverController | None = None) -> None:
        self.peaks: dict[str, int] = {}
        self._most = most
        self._controller = keeper

    def build_environment(self) -> dict[str, str]:
        """Return the variables for the build's processes.

        MAX_JOBS and similar variables must not be set with these.
        """
        if not self._controller:
            return {}
        return {"MAKEFLAGS": f" -j{self._most} --jobserver-auth={self._controller.tokens.auth}"}

    @property
    def in_use(self) -> int:
        """The number of running jobs of all builds that use the jobserver."""
        return self._controller.in_use if self._controller else 0

    @property
    def peak_jobs(self) -> int:
        """The most jobs that ran at once, of all builds that use the jobserver."""
        return self._controller.busiest if self._controller else 0

    @property
    def at_work(self) -> tuple[Job, ...]:
        """The running jobs as of the last sample."""
        return self._controller.at_work if self._controller else ()

    @property
    def withheld_jobs(self) -> int:
        """The number of jobs that are held back for lack of memory."""
        return self._controller.withheld_jobs if self._controller else 0


def is_supported_ninja(ninja_version: str) -> bool:
    """Return True if this version of Ninja is a jobserver client."""
    match = re.match(r"(\d+)\.(\d+)", ninja_version)
    return match is not None and (int(match[1]), int(match[2])) >= _MIN_NINJA


@contextlib.contextmanager
def join_jobserver(
    folder: Path,
    most: int,
    decide: Callable[[BuildSnapshot], GovernorDecision],
    expected: Mapping[str, int],
    tick: float = TICK,
) -> Iterator[Jobserver]:
    """Join the jobserver of `folder` while a build runs.

    `expected` holds the peaks of the last build. If this build does not finish, the larger of old
    and new peaks are returned. Jobs of another build, should this one govern, are forecast by their
    kind.
    """
    with open_job_tokens(folder) as (tokens, leader_lock):
        controller = JobserverController(
            tokens, leader_lock, RunningEdges(tokens.auth, expected), decide, most
        )
        jobserver = Jobserver(most, controller)
        controller.take_first_sample()
        run_loop = bind_current_context(controller.run_loop)
        thread = threading.Thread(target=run_loop, args=(tick,), name="jobserver", daemon=True)
        thread.start()
        try:
            yield jobserver
            jobserver.peaks = controller.stop_control(thread)
        except BaseException:
            peaks = controller.stop_control(thread)
            jobserver.peaks = {
                name: max(peak, expected.get(name, 0)) for name, peak in peaks.items()
            }
            raise
