"""Choose the number of jobs from cores and memory; retry with fewer if compilers were killed."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path, PurePath

from tasks.compiler_cache import cache_program_io
from tasks.core.build_activity import BuildActivity, BuildSnapshot, GovernorDecision
from tasks.core.deps_model import DepsManifest
from tasks.core.errors import CommandFailedError
from tasks.jobs import jobserver_io, out_of_memory
from tasks.jobs.governor import decide_jobs
from tasks.jobs.ninja_steps_io import EdgeTimes
from tasks.jobs.out_of_memory import MEMORY_SLUGS, KilledAttempt
from tasks.jobs.progress_io import ProgressMonitor
from tasks.knowledge.knowledge_files_io import KNOWLEDGE_FOLDER, load_knowledge
from tasks.runlog.memory_monitor_io import MEMORY_MONITOR, ObservedMemory
from tasks.system import files
from tasks.system.hardware import capacity, toolchain
from tasks.system.output import print_line, print_warning

LineHandler = Callable[[str], None]  # handles one line of build output

# Ninja ignores the jobserver if one of these variables contains a number
JOB_COUNT_VARIABLES = ("MAX_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL")
_DISK_FULL_HINT = (
    "the disk is full (disk-full). Free some disk space and run the same command again. "
    "The build continues where it stopped"
)


def resolve_fixed_jobs(
    limit: int | None, folder: PurePath, ninja: str, deps: DepsManifest, launchers: Iterable[str]
) -> int | None:
    """Return a fixed number of jobs for a build with `ninja`; `None` if it can use the jobserver.

    The fixed number is what the memory allows now, at most `limit`. It is used with an old `ninja`,
    sccache among the `launchers` or, except on Windows, a `folder` with a space in its path or one
    that cannot be written.
    """
    program = deps.ninja if ninja == deps.ninja.path else toolchain.find_program(ninja)
    served = any(cache_program_io.parse_cache_kind(one) == "sccache" for one in launchers)
    fits = (os.name == "nt" or _can_have_jobserver(folder)) and not served
    obeys = fits and program is not None and jobserver_io.is_supported_ninja(program.version)
    return None if obeys else compute_safe_jobs(limit)


@cache
def _can_have_jobserver(folder: PurePath) -> bool:
    """Return True if the jobserver can use the folder; otherwise print a warning."""
    nearest = files.find_existing_ancestor(folder)
    is_writable = nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
    problem = "cannot be written"
    if " " in str(folder):  # MAKEFLAGS is split at spaces
        problem = "has a space in its path"
    elif is_writable and all(os.access(it, os.R_OK | os.W_OK) for it in Path(folder).rglob("*")):
        return True
    print_warning(
        f"builds cannot share their jobs, because {folder} {problem}: each uses a fixed number of "
        "jobs. To use another folder, set TORCHYARD_CACHE_DIR"
    )
    return False


def compute_safe_jobs(limit: int | None, compiler_mib: int = 0) -> int:
    """Return how many compilers the available memory allows, at most `limit`.

    Without `limit`, use the number of cores. Each compiler needs at least `compiler_mib` of memory.
    """
    jobs = capacity.compute_safe_jobs(compiler_mib, limit or 0)
    return min(limit or jobs, jobs)


@dataclass
class JobScheduler:
    """The scheduler of one build: it sets the number of jobs, retries, and collects results.

    `jobs` is a fixed number of jobs, or `None` to use the jobserver in `jobserver_folder`.
    `expected` maps outputs to the expected MiB. `most` is the maximum of jobs on this machine,
    `slots` on others, and `limit` in total (the setting build.jobs). The results, also of a failed
    build, are `peaks` (output → MiB), `killed` (outputs), `allowed` (how many jobs could run at
    once), `busiest` (how many did), `edge_times`, and `old_make` (True if a make ran that does not
    support the jobserver).
    """

    jobs: int | None
    jobserver_folder: PurePath
    expected: Mapping[str, int]
    most: int = field(default_factory=capacity.count_usable_cores)
    slots: int = 0
    active_jobserver: jobserver_io.Jobserver | None = None
    busiest: int = 0
    used_jobserver: bool = False  # whether the last attempt ran a job under the jobserver
    allowed: int = 0
    attempts: int = 0
    tried_again: bool = False  # same jobs, after a kill although memory was not short
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
        """Run the build with `start(jobs, env, take)`, which passes each output line to `take`.

        If a compiler ran out of memory, retry with half as many jobs; if it was killed for another
        reason, retry once with the same number. If a make is too old for the jobserver, retry with
        a fixed number. Raises the `CommandFailedError` of the last attempt.
        """
        if self.limit and not self.jobs:  # divide the limit between this machine and the workers
            self.most = min(self.most, self.limit) if self.slots else self.limit
            self.slots = min(self.slots, self.limit - self.most)
        elif self.limit and self.jobs and self.jobs < self.limit:
            change = f"running {self.jobs} instead of {self.limit} jobs until the end of this build"
            reason = "the free memory is not sufficient for more"
            print_line(f"{change}: {reason}. To use build.jobs exactly, set build.jobs_exact: true")
        while True:
            try:
                with MEMORY_MONITOR.observe_memory() as memory, self._join_jobserver() as env:
                    return start(self.jobs, env, self.edge_times.record_line)
            except CommandFailedError as error:
                if not self._should_retry(error, memory):
                    raise

    def sample_activity(self) -> BuildActivity:
        """Return the current activity of the build: its jobs, memory and slowest outputs."""
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

        def decide(view: BuildSnapshot) -> GovernorDecision:
            return decide_jobs(replace(view, most=most, local=self.most if self.slots else 0))

        folder = Path(self.jobserver_folder)
        tokens = most + self.slots  # one more for each job paused by the limit of local jobs
        try:
            with jobserver_io.join_jobserver(folder, tokens, decide, self.expected) as jobserver:
                self.active_jobserver = jobserver
                yield jobserver.build_environment()
        finally:
            ended, self.active_jobserver = self.active_jobserver, None
            if ended:
                self.busiest, self.used_jobserver = ended.peak_jobs, bool(ended.peaks)
                self.peaks.update(ended.peaks)

    def _should_retry(self, error: CommandFailedError, memory: ObservedMemory) -> bool:
        """Decide whether to retry the build. Print the reason, or add a hint to `error`."""
        failures, log = load_knowledge(KNOWLEDGE_FOLDER).failures, error.parsed_log
        if log is None:
            return False
        if not self.jobs and any(log.find_lines(failures, ("old-make",))):
            self.old_make, self.jobs = True, compute_safe_jobs(self.limit)
            cause = "this build runs a GNU make older than 4.4, which has no jobserver support"
            print_warning(f"{cause}. Retrying with build.jobs: {self.jobs}")
            return True
        culprits = out_of_memory.find_killed_outputs(failures, log)
        if not culprits:
            disk_full = out_of_memory.is_disk_full(failures, log)
            error.hint = _DISK_FULL_HINT if disk_full else error.hint
            return False
        # A build that chose its own number of jobs ran none under the jobserver
        chosen = self.jobs or not self.used_jobserver
        attempt = KilledAttempt(
            memory_short=memory.is_memory_short(),
            names_memory=out_of_memory.has_memory_message(failures, log),
            jobs=self.jobs if chosen else min(self.most, self.busiest or self.most),
            safe_jobs=compute_safe_jobs(self.limit),
            retries=self.attempts,
            unchanged_retries=self.tried_again,
        )
        decision = out_of_memory.decide_retry(attempt)
        names = ", ".join(Path(output).name for output in culprits if output != "?")
        compiler = f"the compiler of {names}" if names else "a compiler"
        if decision.jobs is None:
            if decision.retry:
                self.tried_again = True
                cause = f"{compiler} was killed, but not for lack of memory"
                print_warning(f"{cause}. Retrying with the same build.jobs")
            return decision.retry
        self.killed = tuple(dict.fromkeys((*self.killed, *culprits)))
        known = {**self.expected, **self.peaks}
        self.expected = known | {name: 2 * known.get(name, 0) for name in culprits}
        if not decision.retry:
            cause = f"{compiler} needs more memory than is available ({MEMORY_SLUGS[os.name]})"
            remedy = "add swap space, or disable the feature that compiles this file"
            error.hint = f"{cause}. Close other programs, {remedy}"
            return False
        self.attempts += 1
        if chosen:
            self.jobs = decision.jobs
        else:
            self.most = decision.jobs
        print_warning(f"{compiler} ran out of memory. Retrying with build.jobs: {decision.jobs}")
        return True


_condition = threading.Condition()
_active_builds = {"sharing": 0, "alone": 0, "waiting": 0}


@contextmanager
def reserve_build_slot(*, alone: bool) -> Iterator[None]:
    """Wait while another build runs, if it or this one is `alone`; then run the with block."""
    kind = "alone" if alone else "sharing"
    # A waiting `alone` build blocks later builds, so that it does not wait for them too
    other = "sharing" if alone else "waiting"
    with _condition:
        _active_builds["waiting"] += alone
        try:
            _condition.wait_for(lambda: not _active_builds["alone"] and not _active_builds[other])
        finally:
            _active_builds["waiting"] -= alone
        _active_builds[kind] += 1
    try:
        yield
    finally:
        with _condition:
            _active_builds[kind] -= 1
            _condition.notify_all()
