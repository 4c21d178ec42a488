"""Choose how many compilers run at once, from cores and memory, and retry with fewer after a kill.

If Ninja supports a jobserver, the build joins one that a governor limits to the available memory
and to build.jobs. Otherwise, or with build.jobs_exact, the number is fixed. Either number is halved
if a compiler still runs out of memory, and the build continues where it failed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath

from tasks.compiler_cache import cache_program_io
from tasks.core.build_activity import BuildActivity, BuildSnapshot, GovernorDecision
from tasks.core.deps_model import DepsManifest
from tasks.core.errors import CommandFailedError
from tasks.jobs import jobserver_io
from tasks.jobs.governor import decide_jobs
from tasks.jobs.ninja_steps_io import EdgeTimes
from tasks.jobs.out_of_memory import (
    MEMORY_SLUGS,
    KilledAttempt,
    decide_retry,
    find_killed_outputs,
    has_memory_message,
    is_disk_full,
)
from tasks.jobs.progress_io import ProgressMonitor
from tasks.knowledge.knowledge_files_io import KNOWLEDGE_FOLDER, load_knowledge
from tasks.runlog.memory_monitor_io import MEMORY_MONITOR, ObservedMemory
from tasks.system.hardware import capacity, toolchain
from tasks.system.output import print_line, print_warning

LineHandler = Callable[[str], None]  # handles one line of build output

# A number in one of these variables would make Ninja ignore the jobserver
JOB_COUNT_VARIABLES = ("MAX_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL")


def resolve_fixed_jobs(
    asked: int | None, pool: PurePath, ninja: str, deps: DepsManifest, launchers: Iterable[str]
) -> int | None:
    """Return how many compilers the program `ninja` should run at once.

    None if the jobserver in the folder `pool` can enforce memory and the limit `asked`; otherwise
    the number that memory allows now, at most `asked`.

    The jobserver cannot enforce memory if sccache is one of the `launchers`: its server runs the
    compilers, so that their memory is not that of Ninja's children.
    """
    program = deps.ninja if ninja == deps.ninja.path else toolchain.find_program(ninja)
    served = any(cache_program_io.parse_cache_kind(one) == "sccache" for one in launchers)
    # MAKEFLAGS is split at spaces, so that the path of the pipe must not contain one
    fits = (os.name == "nt" or " " not in str(pool)) and not served
    obeys = fits and program is not None and jobserver_io.is_supported_ninja(program.version)
    return None if obeys else compute_safe_jobs(asked)


def compute_safe_jobs(limit: int | None, compiler_mib: int = 0) -> int:
    """Return how many compilers memory allows now.

    At most `limit`, which may exceed the number of cores; without a limit, at most the number of
    cores.
    """
    if not limit:
        return capacity.compute_safe_jobs(compiler_mib)
    return min(limit, capacity.compute_safe_jobs(compiler_mib, limit))


@dataclass
class JobScheduler:
    """The number of compilers of one build, its retries, and what was observed while it ran.

    `jobs` is a fixed number, None for the jobserver in `jobserver_folder`; `expected` are MiB by
    output. At most `most` jobs run locally and `slots` more on workers; `limit`, the number in the
    settings, is the maximum of both together.

    The results are available during the build and after it, however it ended: `peaks`, the peak MiB
    by output; `killed`, the outputs whose compilers were killed; `edge_times`, the times read from
    its output; `allowed`, the maximum number of jobs; `old_make`, True if a make without jobserver
    support is part of the build. If an earlier build found such a make, the number is fixed from
    the start.
    """

    jobs: int | None
    jobserver_folder: PurePath
    expected: Mapping[str, int]
    most: int = field(default_factory=capacity.count_usable_cores)
    slots: int = 0
    active_jobserver: jobserver_io.Jobserver | None = None
    busiest: int = 0
    used_jobserver: bool = False  # whether the last attempt ran any job with the jobserver
    allowed: int = 0
    attempts: int = 0
    tried_again: bool = False  # with the same number, after a kill that memory did not cause
    killed: tuple[str, ...] = ()
    peaks: dict[str, int] = field(default_factory=dict)
    progress_monitor: ProgressMonitor = field(default_factory=ProgressMonitor)
    edge_times: EdgeTimes = field(default_factory=EdgeTimes)
    old_make: bool = False
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.old_make and not self.jobs:
            self.jobs = compute_safe_jobs(self.limit)
        if self.limit and not self.jobs:  # builds with different limits need different jobservers
            self.jobserver_folder = self.jobserver_folder / str(self.limit)

    def run_build(
        self, start: Callable[[int | None, Mapping[str, str], LineHandler], None]
    ) -> None:
        """Call `start(jobs, env, take)`, which runs the build and passes each line to `take`.

        The build is retried with half the jobs if a compiler was killed for lack of memory, once
        with the same number if a compiler was killed while memory was not short, and with a fixed
        number if a make without jobserver support is part of it.

        Raises the `CommandFailedError` of the build, with a hint if memory was the cause.
        """
        self._apply_limit()
        while True:
            try:
                with MEMORY_MONITOR.observe_memory() as memory, self._join_jobserver() as env:
                    start(self.jobs, env, self.edge_times.record_line)
            except CommandFailedError as error:
                if not self._should_retry(error, memory):
                    raise
            else:
                return

    def _apply_limit(self) -> None:
        """Divide the limit between this machine and the workers; report a fixed number below it."""
        if not self.limit:
            return
        if self.jobs:
            if self.jobs < self.limit:
                print_line(
                    f"running {self.jobs} of {self.limit} jobs: memory allows no more now, and the "
                    "number is fixed for this build (build.jobs_exact: true runs all "
                    f"{self.limit})"
                )
            return
        self.most = min(self.most, self.limit) if self.slots else self.limit
        self.slots = min(self.slots, self.limit - self.most)

    def sample_activity(self) -> BuildActivity:
        """Return the jobs that run now, and how many are held back."""
        if self.active_jobserver:
            self.edge_times.record_running_jobs(self.active_jobserver.at_work)
        return self.progress_monitor.read_activity(self.active_jobserver)

    @contextmanager
    def _join_jobserver(self) -> Iterator[Mapping[str, str]]:
        most = self.most + self.slots
        self.allowed = self.jobs or most
        if self.jobs:
            yield {}
            return
        pool = None
        try:
            # one more for each local job that is paused until this machine has a free slot
            tokens = most + self.slots
            with jobserver_io.join_jobserver(
                Path(self.jobserver_folder), tokens, self._decide_local_jobs, self.expected
            ) as pool:
                self.active_jobserver = pool
                yield pool.build_environment()
        finally:
            self.active_jobserver = None
            if pool:
                self.busiest, self.used_jobserver = pool.peak_jobs, bool(pool.peaks)
                self.peaks.update(pool.peaks)

    def _decide_local_jobs(self, view: BuildSnapshot) -> GovernorDecision:
        if not self.slots:
            return decide_jobs(view)
        return decide_jobs(replace(view, most=self.most + self.slots, local=self.most))

    def _should_retry(self, error: CommandFailedError, seen: ObservedMemory) -> bool:
        """Return True, with a message, to retry; otherwise set the hint of `error` if known."""
        failures, log = load_knowledge(KNOWLEDGE_FOLDER).failures, error.parsed_log
        if log is None:
            return False
        if not self.jobs and any(log.find_lines(failures, ("old-make",))):
            self.old_make, self.jobs = True, compute_safe_jobs(self.limit)
            print_warning(
                "a GNU make before 4.4 is part of this build, which cannot share jobs with others: "
                f"going on with {self.jobs} at once"
            )
            return True
        culprits = find_killed_outputs(failures, log)
        if not culprits:
            _explain_full_disk(error, is_disk_full(failures, log))
            return False
        decision = decide_retry(
            KilledAttempt(
                memory_short=seen.is_memory_short(),
                names_memory=has_memory_message(failures, log),
                jobs=self._count_busy_jobs(),
                safe_jobs=compute_safe_jobs(self.limit),
                retries=self.attempts,
                unchanged_retries=self.tried_again,
            )
        )
        if decision.jobs is None:
            if decision.retry:
                self.tried_again = True
                print_warning(
                    f"{_format_outputs(culprits)} was killed, though memory was not short: "
                    "going on with as many at once"
                )
        else:
            self._expect_more_memory(culprits)
            if decision.retry:
                self._limit_jobs(decision.jobs)
                print_warning(
                    f"no memory was left for {_format_outputs(culprits)}: "
                    f"going on with {decision.jobs} at once"
                )
            else:
                _explain_memory_limit(error, culprits)
        return decision.retry

    def _count_busy_jobs(self) -> int | None:
        """Return how many jobs ran at once, None if the build chose its number.

        The jobserver sees no jobs in such a build.
        """
        if self.jobs or not self.used_jobserver:
            return self.jobs
        return min(self.most, self.busiest or self.most)

    def _expect_more_memory(self, culprits: tuple[str, ...]) -> None:
        """Double the expected memory of the outputs whose compilers were killed."""
        self.killed = tuple(dict.fromkeys((*self.killed, *culprits)))
        self.expected = {**self.expected, **self.peaks}
        doubled = {name: 2 * self.expected.get(name, 0) for name in culprits}
        self.expected = {**self.expected, **doubled}

    def _limit_jobs(self, jobs: int) -> None:
        """Run at most `jobs` jobs in the next attempt.

        The number is fixed if the jobserver saw no job.
        """
        self.attempts += 1
        if self.jobs or not self.used_jobserver:
            self.jobs = jobs
        else:
            self.most = jobs


def _explain_full_disk(error: CommandFailedError, full: bool) -> None:
    if full:
        error.hint = (
            "the disk is full (disk-full): free some room and run the same command again, which "
            "goes on from what is done"
        )


def _explain_memory_limit(error: CommandFailedError, culprits: tuple[str, ...]) -> None:
    error.hint = (
        f"{_format_outputs(culprits)} needs more memory than there is "
        f"({MEMORY_SLUGS[os.name]}): close other "
        "programs, add swap, or take what needs it out of the build"
    )


def _format_outputs(culprits: tuple[str, ...]) -> str:
    names = [Path(output).name for output in culprits if output != "?"]
    return ", ".join(names) or "a compiler"


_condition = threading.Condition()
_active_builds = {"sharing": 0, "alone": 0, "waiting": 0}


@contextmanager
def reserve_build_slot(*, alone: bool) -> Iterator[None]:
    """Hold a build slot for the block; with `alone` no other build runs meanwhile."""
    with _condition:
        _wait_for_slot(alone=alone)
        _active_builds["alone" if alone else "sharing"] += 1
    try:
        yield
    finally:
        with _condition:
            _active_builds["alone" if alone else "sharing"] -= 1
            _condition.notify_all()


def _wait_for_slot(*, alone: bool) -> None:
    """Wait for the slot.

    A waiting `alone` build blocks later builds; otherwise it would wait for all of them.
    """
    if not alone:
        _condition.wait_for(lambda: not _active_builds["alone"] and not _active_builds["waiting"])
        return
    _active_builds["waiting"] += 1
    try:
        _condition.wait_for(lambda: not _active_builds["alone"] and not _active_builds["sharing"])
    finally:
        _active_builds["waiting"] -= 1
