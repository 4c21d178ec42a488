"""Describe the running jobs of a build and the memory they use."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from pathlib import PurePath
from typing import Literal

from tasks.core.text_formatting import (
    format_duration,
    format_gib,
    format_rough_duration,
    format_size,
)

# `remote`: C or C++ that another machine compiles; this machine preprocesses and waits
JobKind = Literal["c++", "cuda", "other", "remote"]

_OUTPUT_OPTION = re.compile(r"""(?:^|\s)(?:-o|/Fo:?)\s*(?:"([^"]+)"|'([^']+)'|([^\s"']+))""")
_CUDA_SOURCE = re.compile(r"""\.cu(?=["'\s]|$)""")
_CPP_SOURCE = re.compile(r"""\.(?:c|cc|cpp|cxx|C|mm|hip|S)(?=["'\s]|$)""")


@dataclass(frozen=True)
class Job:
    """A running Ninja command with its child processes.

    `peak_mib` is the highest memory use seen so far. `expected_mib` is the peak in the last build,
    0 if unknown. `age` is in seconds. `waits` is the time in seconds since the job was paused, 0 if
    it runs.
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

    `limit_mib` and `available_mib` belong to the tightest memory limit. `idle` is the number of
    jobs that can start without a further grant, `most` the maximum number of jobs. `shown` has the
    peaks of finished jobs by kind, the smallest first. `since_grant` is the time in seconds since
    the last grant of a further job. `local` is the number of jobs that can run on this machine at
    once, 0 for all.
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
    """The number of concurrent jobs, including the paused ones, and the jobs to pause."""

    jobs: int
    paused: frozenset[int] = frozenset()


def find_output_path(command: str) -> str:
    """Return the output file that a Ninja command line names, "" if it names none."""
    match = _OUTPUT_OPTION.search(command)
    return next(filter(None, match.groups()), "") if match else ""


def classify_command(command: str) -> JobKind:
    """Return the job kind of a command line, by the suffix of its source."""
    if _CUDA_SOURCE.search(command):
        return "cuda"
    return "c++" if _CPP_SOURCE.search(command) else "other"


def classify_output(output: str) -> JobKind:
    """Return the job kind of an output, by the source suffix that CMake keeps in an object's name.

    An object without a source suffix counts as C++.
    """
    source, suffix = output.rpartition(".")[::2]
    return (
        classify_command(f"{source}.cpp" if "." not in source else source)
        if suffix in ("o", "obj")
        else "other"
    )


_HEAVY_THRESHOLDS = (1024, 60.0)  # MiB of memory and seconds of run time that are worth reporting
_SLOW_SECONDS = 30.0  # compile time of an object that is worth reporting
_SHOWN_COUNTS = (2, 3)  # heavy ones, and slow ones
_FEWER_JOBS_HINT = "; a lower build.jobs needs less"
_FULL_MEMORY_SHARE = 0.9  # share of memory in use that counts as full
_MAX_NAME_LENGTH = 24  # characters of a name in a log, where one line has everything


@dataclass(frozen=True)
class HeavyJob:
    """A job that uses much memory or has run for a long time."""

    name: str
    mib: int
    seconds: float

    @property
    def summary(self) -> str:
        """Return `4.6 GiB 3 min`, or only the value that exceeds its threshold."""
        memory = format_size(self.mib) if self.mib >= _HEAVY_THRESHOLDS[0] else ""
        age = format_rough_duration(self.seconds) if self.seconds >= _HEAVY_THRESHOLDS[1] else ""
        return f"{memory} {age}".strip()


@dataclass(frozen=True)
class SlowOutput:
    """An object, and its compile time in seconds."""

    name: str
    seconds: float

    @property
    def summary(self) -> str:
        """Return the compile time, such as `2 min 59 s`."""
        return format_duration(self.seconds)

    def __str__(self) -> str:
        return f"{self.name} {self.summary}"


@dataclass(frozen=True)
class BuildActivity:
    """The current jobs, memory use and cache hits of a build.

    `jobs` is None if jobs are not counted. `held_back` is the number of further jobs that more
    memory would allow. `used_mib` and `limit_mib` belong to the tightest memory limit. `hit_rate`
    is the share of compiler cache hits, from 0 to 1, None if unknown. `paused` is the number of
    compilers that wait for memory.
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
        """Describe a shortage of memory, "" if memory is not short.

        Example: `memory is full (1.6 of 1.7 GiB), 5 compilers are paused`.
        """
        use = f"{format_gib(self.used_mib)} of {format_gib(self.limit_mib)} GiB"
        verb = "compiler is" if self.paused == 1 else "compilers are"
        paused_text = f"{self.paused} {verb} paused" if self.paused else ""
        if not self.limit_mib or self.used_mib < _FULL_MEMORY_SHARE * self.limit_mib:
            return f"{paused_text} until there is room ({use} in use)" if paused_text else ""
        return f"memory is full ({use}){f', {paused_text}' if paused_text else _FEWER_JOBS_HINT}"

    @property
    def counts(self) -> tuple[str, ...]:
        """Return the known counts: `6 jobs (2 held back)`, `9.8 of 24 GiB`, `78 % cache hits`."""
        held_back = f" ({self.held_back} held back)" if self.held_back else ""
        jobs = (
            f"{self.jobs} job{'s' * (self.jobs != 1)}{held_back}" if self.jobs is not None else ""
        )
        memory = (
            f"{format_gib(self.used_mib)} of {format_gib(self.limit_mib)} GiB"
            if self.limit_mib
            else ""
        )
        hits = f"{int(100 * self.hit_rate)} % cache hits" if self.hit_rate is not None else ""
        return tuple(filter(None, (jobs, memory, hits)))

    def __str__(self) -> str:
        heaviest = (f"{_truncate_name(job.name)} {job.summary}" for job in self.heavy[:1])
        return ", ".join((*self.counts, *heaviest))


def find_heavy_jobs(jobs: Iterable[Job]) -> tuple[HeavyJob, ...]:
    """Return the two jobs that use most memory in whole GiB; among equals, the oldest."""
    measured = (
        HeavyJob(_strip_object_suffix(job.output), job.resident_mib, job.age)
        for job in jobs
        if job.output
    )
    heavy_jobs = [one for one in measured if one.summary]
    return tuple(
        sorted(heavy_jobs, key=lambda one: (-(one.mib // 1024), -one.seconds))[: _SHOWN_COUNTS[0]]
    )


def find_slowest_outputs(seconds: Mapping[str, float]) -> tuple[SlowOutput, ...]:
    """Return the three slowest outputs, without those that took less than 30 s."""
    slowest = nlargest(_SHOWN_COUNTS[1], seconds.items(), key=lambda item: item[1])
    return tuple(
        SlowOutput(_strip_object_suffix(output), duration)
        for output, duration in slowest
        if duration >= _SLOW_SECONDS
    )


def _strip_object_suffix(output: str) -> str:
    return PurePath(output.replace("\\", "/")).name.removesuffix(".o").removesuffix(".obj")


def _truncate_name(name: str) -> str:
    return name if len(name) <= _MAX_NAME_LENGTH else f"{name[: _MAX_NAME_LENGTH - 1]}…"
