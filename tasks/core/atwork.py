"""What a build is at work on at one moment, as a person reads it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import nlargest
from pathlib import PurePath

from tasks.core.formatting.duration import format_duration, format_rough_duration
from tasks.core.formatting.size import format_gib, format_size
from tasks.core.jobs import Job

_HEAVY_THRESHOLDS = (1024, 60.0)  # MiB that a job holds, or seconds at work, that are worth a word
_SLOW_SECONDS = 30.0  # seconds that an object took which are worth one
_SHOWN_COUNTS = (2, 3)  # heavy ones, and slow ones
_FEWER_JOBS_HINT = "; a lower build.jobs needs less"
_FULL_MEMORY_SHARE = 0.9  # share of memory in use that counts as full
_MAX_NAME_LENGTH = 24  # signs of a name in a log, where a line has everything


@dataclass(frozen=True)
class HeavyJob:
    """A job that holds much memory, or is at work for long."""

    name: str
    mib: int
    seconds: float

    @property
    def summary(self) -> str:
        """`4.6 GiB 3 min`, or the one of them that is worth a word."""
        memory = format_size(self.mib) if self.mib >= _HEAVY_THRESHOLDS[0] else ""
        age = format_rough_duration(self.seconds) if self.seconds >= _HEAVY_THRESHOLDS[1] else ""
        return f"{memory} {age}".strip()


@dataclass(frozen=True)
class SlowOutput:
    """An object, and the seconds that it took."""

    name: str
    seconds: float

    @property
    def summary(self) -> str:
        """`2 min 59 s`."""
        return format_duration(self.seconds)

    def __str__(self) -> str:
        return f"{self.name} {self.summary}"


@dataclass(frozen=True)
class BuildActivity:
    """One moment. `jobs` is None where nobody counts them, `held_back` how many more there would be
    with more memory; `used_mib` of `limit_mib` are those of the tightest limit; `hit_rate` of the
    compiler cache is a share of 1, None where it is not known. `paused` compilers wait for memory.
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
        """Describe a shortage of memory, "" if there is none: `memory is full (1.6 of 1.7 GiB), 5
        compilers are paused`.
        """
        use = f"{format_gib(self.used_mib)} of {format_gib(self.limit_mib)} GiB"
        verb = "compiler is" if self.paused == 1 else "compilers are"
        paused = f"{self.paused} {verb} paused" if self.paused else ""
        if not self.limit_mib or self.used_mib < _FULL_MEMORY_SHARE * self.limit_mib:
            return f"{paused} until there is room ({use} in use)" if paused else ""
        return f"memory is full ({use}){f', {paused}' if paused else _FEWER_JOBS_HINT}"

    @property
    def counts(self) -> tuple[str, ...]:
        """`6 jobs (2 held back)`, `9.8 of 24 GiB`, `78 % cache hits`: those that are known."""
        held = f" ({self.held_back} held back)" if self.held_back else ""
        jobs = f"{self.jobs} job{'s' * (self.jobs != 1)}{held}" if self.jobs is not None else ""
        memory = (
            f"{format_gib(self.used_mib)} of {format_gib(self.limit_mib)} GiB"
            if self.limit_mib
            else ""
        )
        hits = f"{int(100 * self.hit_rate)} % cache hits" if self.hit_rate is not None else ""
        return tuple(filter(None, (jobs, memory, hits)))

    def __str__(self) -> str:
        heaviest = (f"{_truncate_name(one.name)} {one.summary}" for one in self.heavy[:1])
        return ", ".join((*self.counts, *heaviest))


def find_heavy_jobs(jobs: Iterable[Job]) -> tuple[HeavyJob, ...]:
    """The two that hold most GiB; among those that hold less than one, that are longest at work."""
    known = (
        HeavyJob(_strip_object_suffix(job.output), job.resident_mib, job.age)
        for job in jobs
        if job.output
    )
    found = [one for one in known if one.summary]
    return tuple(
        sorted(found, key=lambda one: (-(one.mib // 1024), -one.seconds))[: _SHOWN_COUNTS[0]]
    )


def find_slowest_outputs(seconds: Mapping[str, float]) -> tuple[SlowOutput, ...]:
    """The three outputs that took longest, none that did not take long."""
    found = nlargest(_SHOWN_COUNTS[1], seconds.items(), key=lambda item: item[1])
    return tuple(
        SlowOutput(_strip_object_suffix(output), took)
        for output, took in found
        if took >= _SLOW_SECONDS
    )


def _strip_object_suffix(output: str) -> str:
    return PurePath(output.replace("\\", "/")).name.removesuffix(".o").removesuffix(".obj")


def _truncate_name(name: str) -> str:
    return name if len(name) <= _MAX_NAME_LENGTH else f"{name[: _MAX_NAME_LENGTH - 1]}…"
