"""Describe the running jobs of a build and the memory they use."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from pathlib import PurePath
from typing import Literal

from tasks.core import text_formatting
from tasks.core.text_formatting import format_gib

# `remote`: another machine compiles the C or C++ file; this machine preprocesses it and waits
JobKind = Literal["c++", "cuda", "other", "remote"]

_OUTPUT_OPTION = re.compile(r"""(?:^|\s)(?:-o|/Fo:?)\s*(?:"([^"]+)"|'([^']+)'|([^\s"']+))""")
_CUDA_SOURCE = re.compile(r"""\.cu(?=["'\s]|$)""")
_CPP_SOURCE = re.compile(r"""\.(?:c|cc|cpp|cxx|C|mm|hip|S)(?=["'\s]|$)""")


@dataclass(frozen=True)
class Job:
    """A running Ninja command with its child processes.

    `resident_mib` is the current memory use, `peak_mib` the highest so far. `expected_mib` is the
    peak in the last build (0: unknown). `age` is the run time in seconds. `waits` is how long the
    job has been paused (0: not paused).
    """

    pid: int
    output: str
    kind: JobKind
    resident_mib: int
    peak_mib: int
    expected_mib: int = 0
    age: float = 0.0
    waits: float = 0.0


@dataclass(frozen=True)
class BuildSnapshot:
    """The state of a build at one moment.

    `limit_mib` is the memory limit that would be reached first, `available_mib` the memory left
    below it. `idle` is how many more jobs can start without another jobserver token, `since_grant`
    the seconds since the last grant of a token. `most` is the maximum number of jobs on all
    machines, `local` on this machine (0: no limit). `shown` has the memory peaks of finished jobs
    by job kind, in ascending order.
    """

    limit_mib: int
    available_mib: int
    running: tuple[Job, ...]
    idle: int
    most: int
    shown: Mapping[JobKind, Sequence[int]] = field(default_factory=dict)
    since_grant: float = 0.0
    local: int = 0


@dataclass(frozen=True)
class GovernorDecision:
    """The maximum number of jobs, including paused ones, and the pids of the jobs to pause."""

    jobs: int
    paused: frozenset[int] = frozenset()


def find_output_path(command: str) -> str:
    """Return the output file that a compiler command line names, "" if it names none."""
    match = _OUTPUT_OPTION.search(command)
    return next(filter(None, match.groups()), "") if match else ""


def classify_command(command: str) -> JobKind:
    """Return the job kind of a compiler command, by the suffix of the source file in it."""
    if _CUDA_SOURCE.search(command):
        return "cuda"
    return "c++" if _CPP_SOURCE.search(command) else "other"


def classify_output(output: str) -> JobKind:
    """Return the job kind of an output file from the source suffix in its name (`Sort.cu.o`)."""
    source, _, suffix = output.rpartition(".")
    if suffix not in {"o", "obj"}:
        return "other"
    return classify_command(source if "." in source else f"{source}.cpp")


_HEAVY_THRESHOLDS = (1024, 60.0)  # MiB of memory and seconds of run time that are worth reporting
_SLOW_SECONDS = 30.0  # compile time of an object that is worth reporting
_FULL_MEMORY_SHARE = 0.9  # share of memory in use that counts as full
_MAX_NAME_LENGTH = 24  # maximum characters of a job name in a log line


@dataclass(frozen=True)
class HeavyJob:
    """A job that uses much memory or has run for a long time."""

    name: str
    mib: int
    seconds: float

    @property
    def summary(self) -> str:
        """Return memory and time, such as `4.6 GiB 3 min`, but omit a small value."""
        min_mib, min_seconds = _HEAVY_THRESHOLDS
        memory = text_formatting.format_size(self.mib) * (self.mib >= min_mib)
        age = text_formatting.format_rough_duration(self.seconds) * (self.seconds >= min_seconds)
        return f"{memory} {age}".strip()


@dataclass(frozen=True)
class SlowOutput:
    """An object file and its compile time in seconds."""

    name: str
    seconds: float

    @property
    def summary(self) -> str:
        """Return the compile time, such as `2 min 59 s`."""
        return text_formatting.format_duration(self.seconds)

    def __str__(self) -> str:
        return f"{self.name} {self.summary}"


@dataclass(frozen=True)
class BuildActivity:
    """The current jobs, memory use and cache hits of a build; None means unknown.

    `held_back` is how many jobs do not start for lack of memory. `used_mib` and `limit_mib` are for
    the memory limit that would be reached first. `hit_rate` is the share of compiler cache hits,
    from 0 to 1. `paused` is the number of compilers that wait for memory.
    """

    jobs: int | None = None
    held_back: int = 0
    used_mib: int = 0
    limit_mib: int = 0
    hit_rate: float | None = None
    heavy: tuple[HeavyJob, ...] = ()
    slowest: tuple[SlowOutput, ...] = ()
    paused: int = 0

    @property
    def memory_shortage(self) -> str:
        """Describe a shortage of memory in one line; "" without a shortage."""
        use = f"{format_gib(self.used_mib)} of {format_gib(self.limit_mib)} GiB"
        paused = f"{self.paused} {'compiler is' if self.paused == 1 else 'compilers are'} paused"
        if not self.limit_mib or self.used_mib < _FULL_MEMORY_SHARE * self.limit_mib:
            return f"{paused} until memory is free ({use} in use)" if self.paused else ""
        note = f", {paused}" if self.paused else "; a lower build.jobs uses less"
        return f"memory is full ({use}){note}"

    @property
    def counts(self) -> tuple[str, ...]:
        """Return the known counts: `6 jobs (2 held back)`, `9.8 of 24 GiB`, `78 % cache hits`."""
        counts = []
        if self.jobs is not None:
            withheld = f" ({self.held_back} held back)" if self.held_back else ""
            counts.append(f"{self.jobs} job{'s' * (self.jobs != 1)}{withheld}")
        if self.limit_mib:
            counts.append(f"{format_gib(self.used_mib)} of {format_gib(self.limit_mib)} GiB")
        if self.hit_rate is not None:
            counts.append(f"{int(100 * self.hit_rate)} % cache hits")
        return tuple(counts)

    def __str__(self) -> str:
        if not self.heavy:
            return ", ".join(self.counts)
        name = self.heavy[0].name
        name = f"{name[: _MAX_NAME_LENGTH - 1]}…" if len(name) > _MAX_NAME_LENGTH else name
        return ", ".join((*self.counts, f"{name} {self.heavy[0].summary}"))


def find_heavy_jobs(jobs: Iterable[Job]) -> tuple[HeavyJob, ...]:
    """Return the two heavy jobs that use the most memory, of equal ones the older."""
    named = (job for job in jobs if job.output)
    measured = (HeavyJob(_find_name(job.output), job.resident_mib, job.age) for job in named)
    heavy = (job for job in measured if job.summary)
    return tuple(nlargest(2, heavy, key=lambda job: (job.mib // 1024, job.seconds)))


def find_slowest_outputs(seconds: Mapping[str, float]) -> tuple[SlowOutput, ...]:
    """Return the three slowest outputs that took 30 s or more."""
    slow = ((path, took) for path, took in seconds.items() if took >= _SLOW_SECONDS)
    slowest = nlargest(3, slow, key=lambda item: item[1])
    return tuple(SlowOutput(_find_name(path), took) for path, took in slowest)


def _find_name(output: str) -> str:
    return PurePath(output.replace("\\", "/")).name.removesuffix(".o").removesuffix(".obj")
