"""Share job tokens between the builds of a folder, one of which governs how many are available.

The tokens are a pipe and the leader lock is a file lock on POSIX; on Windows they are a semaphore
and a named event.
"""

from __future__ import annotations

import contextlib
import functools
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tasks.core.build_activity import BuildSnapshot, GovernorDecision, Job
from tasks.jobs.job_processes_io import PausedJobs
from tasks.jobs.running_edges_io import JobsSnapshot, RunningEdges
from tasks.runlog.memory_monitor_io import MEMORY_MONITOR
from tasks.system.output import bind_current_context, print_warning

if sys.platform == "win32":
    from tasks.jobs.windows_tokens_io import EventLeaderLock as LeaderLock
    from tasks.jobs.windows_tokens_io import TokenSemaphore as JobTokens
    from tasks.jobs.windows_tokens_io import open_tokens
else:
    from tasks.jobs.posix_tokens_io import FileLeaderLock as LeaderLock
    from tasks.jobs.posix_tokens_io import TokenPipe as JobTokens
    from tasks.jobs.posix_tokens_io import open_tokens

TICK = 0.25  # seconds
_MIN_NINJA = (1, 13)  # https://github.com/ninja-build/ninja/releases/tag/v1.13.0
_AUDIT_SAMPLES = 8  # samples that must agree before tokens count as lost or as surplus


class Jobserver:
    """The loop that samples the jobs and adjusts the free tokens, and its state as a build sees it.

    Of `total` tokens, the withheld ones are kept back; the others are free or used by jobs. Without
    the leader lock only the jobs are sampled. `in_use`, `peak_jobs` and `at_work` are the number of
    running jobs, their maximum, and the running jobs as of the last sample, of all builds that use
    the jobserver. `peaks` is set after the build: MiB by output, for builds of this run only.
    """

    def __init__(
        self,
        tokens: JobTokens,
        leader_lock: LeaderLock,
        edges: RunningEdges,
        decide: Callable[[BuildSnapshot], GovernorDecision],
        most: int,
    ) -> None:
        self.peaks: dict[str, int] = {}
        self.in_use = self.peak_jobs = 0
        self.at_work: tuple[Job, ...] = ()
        self._tokens = tokens
        self._leader_lock = leader_lock
        self._edges = edges
        self._decide = decide
        self._most = most
        self._total = most - 1  # Ninja's first job needs no token
        self._pauses = PausedJobs()
        self._failed = self._unsure = False
        self._withheld = 0
        self._owed = 0  # to be withheld as soon as jobs return them
        self._granted = time.monotonic()
        self._audit_counts: deque[tuple[int, int]] = deque(maxlen=_AUDIT_SAMPLES)

    def build_environment(self) -> dict[str, str]:
        """Return the variables for the build's processes, without MAX_JOBS or the like."""
        return {"MAKEFLAGS": f" -j{self._most} --jobserver-auth={self._tokens.auth}"}

    @property
    def withheld_jobs(self) -> int:
        """The number of tokens withheld for lack of memory, here or by another governor."""
        leads = self._leader_lock.taken
        return self._withheld if leads else self._count_missing_tokens(self.in_use)

    def start_control(self, tick: float) -> threading.Thread:
        """Sample jobs and adjust tokens before the build gets any, then every `tick` seconds."""
        self._run_safely(self._govern_once)
        run_loop = bind_current_context(self._run_safely)
        work = functools.partial(self._govern_until_stopped, tick)
        thread = threading.Thread(target=run_loop, args=(work,), name="jobserver", daemon=True)
        thread.start()
        return thread

    def stop_control(self, thread: threading.Thread) -> dict[str, int]:
        """Stop the loop, return all withheld tokens, and return the peaks in MiB by output.

        May be called again after an interrupt.
        """
        self._tokens.stop_waiting()
        thread.join()
        self._run_safely(lambda: self._edges.sample_jobs(time.monotonic()))
        self._release_tokens()
        return self._edges.peaks

    def _run_safely(self, work: Callable[[], object]) -> None:
        """Call `work`; after an error give up governing and withhold nothing any longer."""
        if self._failed:
            return
        try:
            work()
        except Exception as bug:  # noqa: BLE001 - a bug here must not hang the build
            self._failed = True
            self.at_work = ()  # no longer sampled
            error = f"{type(bug).__name__}: {bug}"
            print_warning(f"the number of jobs is not limited by memory any longer: {error}")
            with contextlib.suppress(OSError):  # the lock may be what failed
                if self._leader_lock.acquire_lead() and not self._unsure:
                    self._withheld = max(self._withheld, self._count_missing_tokens(self.in_use))
            self._release_tokens()
            self._leader_lock.close()
            self.in_use = 0

    def _govern_until_stopped(self, tick: float) -> None:
        while not self._tokens.stopped:
            until = time.monotonic() + tick
            while (remaining := until - time.monotonic()) > 0 and not self._tokens.stopped:
                self._add_withheld(self._tokens.wait_for_tokens(remaining, self._owed))
            if not self._tokens.stopped:
                self._govern_once()

    def _govern_once(self) -> None:
        now = time.monotonic()
        sample = self._edges.sample_jobs(now, self._pauses.since)
        self.in_use = len(sample.jobs)
        self.peak_jobs = max(self.peak_jobs, self.in_use)
        self.at_work = sample.jobs
        self._unsure = sample.unsure
        if not self._leader_lock.taken:
            if not self._leader_lock.acquire_lead():
                return
            # Tokens that a make holds are not missing; after its end the audit finds the lost ones
            self._withheld = 0 if sample.unsure else self._count_missing_tokens(sample.most)
        self._audit_tokens(sample)
        memory = MEMORY_MONITOR.read_memory()  # as recent as the sizes of the jobs
        view = BuildSnapshot(
            limit_mib=memory.limit_mib,
            available_mib=memory.available_mib,
            running=sample.jobs,
            idle=self._tokens.count_tokens() + (sample.idle if sample.ninjas else 1),
            most=self._most,
            shown=self._edges.shown,
            since_grant=now - self._granted,
        )
        self._apply_decision(self._decide(view), sample, now)

    def _apply_decision(self, decision: GovernorDecision, sample: JobsSnapshot, now: float) -> None:
        self._pauses.set_paused_jobs(decision.paused, now)
        available = max(0, decision.jobs - max(1, sample.ninjas))
        if sample.unsure:  # a make holds tokens for jobs that cannot be seen; nobody else gets them
            counted = self._tokens.count_tokens() + self._withheld + sample.least
            available += max(0, self._total - counted)
        withheld = max(0, self._total - available)
        self._owed = max(0, withheld - self._withheld)
        if (surplus := self._withheld - withheld) > 0:
            self._tokens.return_tokens(surplus)
            self._withheld -= surplus
            self._granted = now
        self._add_withheld(self._tokens.take_tokens(self._owed))

    def _add_withheld(self, taken: int) -> None:
        self._withheld += taken
        self._owed -= taken

    def _audit_tokens(self, sample: JobsSnapshot) -> None:
        """Correct the number of tokens.

        Tokens that a killed build took with it are added to the withheld ones, so that the governor
        can hand them out. Surplus tokens are discarded.
        """
        token_count = self._tokens.count_tokens() + self._withheld
        lost = 0 if sample.unsure else self._total - token_count - sample.most
        self._audit_counts.append((lost, token_count + sample.least - self._total))
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
            self._tokens.take_tokens(excess - withheld)

    def _count_missing_tokens(self, in_use: int) -> int:
        return max(0, self._total - self._tokens.count_tokens() - in_use)

    def _release_tokens(self) -> None:
        self._pauses.close()
        self._tokens.return_tokens(self._withheld)
        self._withheld = self._owed = 0


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
    with open_tokens(folder) as (tokens, leader_lock):
        edges = RunningEdges(tokens.auth, expected)
        jobserver = Jobserver(tokens, leader_lock, edges, decide, most)
        thread = jobserver.start_control(tick)
        try:
            yield jobserver
            jobserver.peaks = jobserver.stop_control(thread)
        except BaseException:
            peaks = jobserver.stop_control(thread)
            jobserver.peaks = {
                name: max(peak, expected.get(name, 0)) for name, peak in peaks.items()
            }
            raise
