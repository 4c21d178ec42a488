"""Share job tokens between the builds of a folder. One of them, the governor, limits the tokens."""

import contextlib
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
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
_AUDIT_SAMPLES = 8  # consecutive samples before tokens count as lost or as surplus


@dataclass
class Jobserver:
    """The jobserver as one build uses it: to sample jobs and, as the governor, to adjust tokens.

    A token is free, used by a job, or withheld by the governor, which is the build with the
    leader lock. At most `most` jobs may run. `at_work` are the running jobs of all builds, `in_use`
    is their number, and `peak_jobs` the highest number so far. At the end, `peaks` maps each output
    of this build to its peak MiB.
    """

    tokens: JobTokens
    leader_lock: LeaderLock
    edges: RunningEdges
    decide: Callable[[BuildSnapshot], GovernorDecision]
    most: int
    peaks: Mapping[str, int] = field(default_factory=dict)
    in_use: int = 0
    peak_jobs: int = 0
    at_work: tuple[Job, ...] = ()

    def __post_init__(self) -> None:
        self._total = self.most - 1  # Ninja's first job needs no token
        self._pauses = PausedJobs()
        self._failed = self._unsure = False
        self._withheld = 0
        self._owed = 0  # tokens to withhold as soon as jobs return them
        self._granted = time.monotonic()
        self._audit_counts: deque[tuple[int, int]] = deque(maxlen=_AUDIT_SAMPLES)

    def build_environment(self) -> dict[str, str]:
        """Return the environment variables that make the build use the jobserver."""
        return {"MAKEFLAGS": f" -j{self.most} --jobserver-auth={self.tokens.auth}"}

    @property
    def withheld_jobs(self) -> int:
        """The number of tokens that the governor (this build or another) withholds for memory."""
        leads = self.leader_lock.taken
        return self._withheld if leads else self._count_missing_tokens(self.in_use)

    def start_control(self, tick: float) -> threading.Thread:
        """Sample jobs and adjust tokens: once now, then every `tick` seconds in a thread."""

        def govern_until_stopped() -> None:
            while not self.tokens.stopped:
                until = time.monotonic() + tick
                while (remaining := until - time.monotonic()) > 0 and not self.tokens.stopped:
                    self._withhold_tokens(self.tokens.wait_for_tokens(remaining, self._owed))
                if not self.tokens.stopped:
                    self._govern_once()

        self._run_safely(self._govern_once)
        run_loop, work = bind_current_context(self._run_safely), (govern_until_stopped,)
        thread = threading.Thread(target=run_loop, args=work, name="jobserver", daemon=True)
        thread.start()
        return thread

    def stop_control(self, thread: threading.Thread) -> dict[str, int]:
        """Stop sampling, release the withheld tokens, and return the peak MiB of each output."""
        self.tokens.stop_waiting()
        thread.join()
        self._run_safely(lambda: self.edges.sample_jobs(time.monotonic()))
        self._release_tokens()
        return self.edges.peaks

    def _run_safely(self, work: Callable[[], object]) -> None:
        """Call `work`; after an error, print a warning and stop limiting the jobs by memory."""
        if self._failed:
            return
        try:
            work()
        except Exception as bug:  # noqa: BLE001 - a bug here must not hang the build
            self._failed = True
            self.at_work = ()  # no samples are taken any more
            error = f"{type(bug).__name__}: {bug}"
            print_warning(f"torchyard no longer adapts the number of jobs to the memory: {error}")
            with contextlib.suppress(OSError):  # the lock may be what failed
                if self.leader_lock.acquire_lead() and not self._unsure:
                    self._withheld = max(self._withheld, self._count_missing_tokens(self.in_use))
            self._release_tokens()
            self.leader_lock.close()
            self.in_use = 0

    def _govern_once(self) -> None:
        now = time.monotonic()
        sample = self.edges.sample_jobs(now, self._pauses.since)
        self.in_use = len(sample.jobs)
        self.peak_jobs = max(self.peak_jobs, self.in_use)
        self.at_work = sample.jobs
        self._unsure = sample.unsure
        if not self.leader_lock.taken:
            if not self.leader_lock.acquire_lead():
                return
            # A make may hold the missing tokens; when it has ended, the audit finds lost tokens
            self._withheld = 0 if sample.unsure else self._count_missing_tokens(sample.most)
        self._audit_tokens(sample)
        memory = MEMORY_MONITOR.read_memory()  # read together with the memory of the jobs
        view = BuildSnapshot(
            limit_mib=memory.limit_mib,
            available_mib=memory.available_mib,
            running=sample.jobs,
            idle=self.tokens.count_tokens() + (sample.idle if sample.ninjas else 1),
            most=self.most,
            shown=self.edges.shown,
            since_grant=now - self._granted,
        )
        decision = self.decide(view)
        self._pauses.set_paused_jobs(decision.paused, now)
        available = max(0, decision.jobs - max(1, sample.ninjas))
        if sample.unsure:  # a make holds tokens for unseen jobs; do not replace them
            counted = self.tokens.count_tokens() + self._withheld + sample.least
            available += max(0, self._total - counted)
        withheld = max(0, self._total - available)
        self._owed = max(0, withheld - self._withheld)
        if (surplus := self._withheld - withheld) > 0:
            self.tokens.return_tokens(surplus)
            self._withheld -= surplus
            self._granted = now
        self._withhold_tokens(self.tokens.take_tokens(self._owed))

    def _withhold_tokens(self, taken: int) -> None:
        self._withheld += taken
        self._owed -= taken

    def _audit_tokens(self, sample: JobsSnapshot) -> None:
        """Correct the number of tokens if it is wrong in several samples in a row."""
        token_count = self.tokens.count_tokens() + self._withheld
        lost = 0 if sample.unsure else self._total - token_count - sample.most
        self._audit_counts.append((lost, token_count + sample.least - self._total))
        if len(self._audit_counts) < _AUDIT_SAMPLES:
            return
        lost, excess = (min(counts) for counts in zip(*self._audit_counts, strict=True))
        if lost > 0:  # lost with a killed build: count them as withheld, to release them later
            self._withheld += lost
        elif excess > 0:
            withheld = min(excess, self._withheld)
            self._withheld -= withheld
            self.tokens.take_tokens(excess - withheld)
        else:
            return
        self._audit_counts.clear()

    def _count_missing_tokens(self, in_use: int) -> int:
        return max(0, self._total - self.tokens.count_tokens() - in_use)

    def _release_tokens(self) -> None:
        self._pauses.close()
        self.tokens.return_tokens(self._withheld)
        self._withheld = self._owed = 0


def is_supported_ninja(ninja_version: str) -> bool:
    """Return True if this version of Ninja supports a jobserver (1.13 and later)."""
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
    """Join the jobserver in `folder` during the with block, with at most `most` jobs.

    `expected` maps outputs to their peak MiB in the last build. Afterwards, `Jobserver.peaks`
    has the measured peaks; if the build failed, no peak is less than expected.
    """
    with open_tokens(folder) as (tokens, leader_lock):
        edges = RunningEdges(tokens.auth, expected)
        jobserver = Jobserver(tokens, leader_lock, edges, decide, most)
        thread = jobserver.start_control(tick)
        try:
            yield jobserver
            jobserver.peaks = jobserver.stop_control(thread)
        except BaseException:
            peaks = jobserver.stop_control(thread).items()  # again, if it was interrupted
            jobserver.peaks = {name: max(peak, expected.get(name, 0)) for name, peak in peaks}
            raise
