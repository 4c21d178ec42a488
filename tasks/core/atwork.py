"""What a build is at work on at one moment, as a person reads it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import nlargest
from pathlib import PurePath

from tasks.core.formatting.duration import elapsed, roughly
from tasks.core.formatting.size import gib, size
from tasks.core.jobs import Job

_HEAVY = (1024, 60.0)  # MiB that a job holds, or seconds at work, that are worth a word
_LONG = 30.0  # seconds that an object took which are worth one
_SHOWN = (2, 3)  # heavy ones, and slow ones
_FEWER = "; a lower build.jobs needs less"
_FULL = 0.9  # share of memory in use that counts as full
_NAME = 24  # signs of a name in a log, where a line has everything


@dataclass(frozen=True)
class Heavy:
    """A job that holds much memory, or is at work for long."""

    name: str
    mib: int
    seconds: float

    @property
    def facts(self) -> str:
        """`4.6 GiB 3 min`, or the one of them that is worth a word."""
        memory = size(self.mib) if self.mib >= _HEAVY[0] else ""
        age = roughly(self.seconds) if self.seconds >= _HEAVY[1] else ""
        return f"{memory} {age}".strip()


@dataclass(frozen=True)
class Slow:
    """An object, and the seconds that it took."""

    name: str
    seconds: float

    @property
    def facts(self) -> str:
        """`2 min 59 s`."""
        return elapsed(self.seconds)

    def __str__(self) -> str:
        return f"{self.name} {self.facts}"


@dataclass(frozen=True)
class AtWork:
    """One moment. `jobs` is None where nobody counts them, `held_back` how many more there would be
    with more memory; `used_mib` of `limit_mib` are those of the tightest limit; `hit_rate` of the
    compiler cache is a share of 1, None where it is not known. `paused` compilers wait for memory.
    """

    jobs: int | None = None
    held_back: int = 0
    used_mib: int = 0
    limit_mib: int = 0
    hit_rate: float | None = None
    heavy: tuple[Heavy, ...] = ()
    slowest: tuple[Slow, ...] = ()
    paused: int = 0

    @property
    def shortage(self) -> str:
        """Describe a shortage of memory, "" if there is none: `memory is full (1.6 of 1.7 GiB), 5
        compilers are paused`.
        """
        use = f"{gib(self.used_mib)} of {gib(self.limit_mib)} GiB"
        verb = "compiler is" if self.paused == 1 else "compilers are"
        paused = f"{self.paused} {verb} paused" if self.paused else ""
        if not self.limit_mib or self.used_mib < _FULL * self.limit_mib:
            return f"{paused} until there is room ({use} in use)" if paused else ""
        return f"memory is full ({use}){f', {paused}' if paused else _FEWER}"

    @property
    def counts(self) -> tuple[str, ...]:
        """`6 jobs (2 held back)`, `9.8 of 24 GiB`, `78 % cache hits`: those that are known."""
        held = f" ({self.held_back} held back)" if self.held_back else ""
        jobs = f"{self.jobs} job{'s' * (self.jobs != 1)}{held}" if self.jobs is not None else ""
        memory = f"{gib(self.used_mib)} of {gib(self.limit_mib)} GiB" if self.limit_mib else ""
        hits = f"{int(100 * self.hit_rate)} % cache hits" if self.hit_rate is not None else ""
        return tuple(filter(None, (jobs, memory, hits)))

    def __str__(self) -> str:
        heaviest = (f"{_cut(one.name)} {one.facts}" for one in self.heavy[:1])
        return ", ".join((*self.counts, *heaviest))


def heavy(jobs: Iterable[Job]) -> tuple[Heavy, ...]:
    """The two that hold most GiB; among those that hold less than one, that are longest at work."""
    known = (Heavy(_name(job.output), job.resident_mib, job.age) for job in jobs if job.output)
    found = [one for one in known if one.facts]
    return tuple(sorted(found, key=lambda one: (-(one.mib // 1024), -one.seconds))[: _SHOWN[0]])


def slowest(seconds: Mapping[str, float]) -> tuple[Slow, ...]:
    """The three outputs that took longest, none that did not take long."""
    found = nlargest(_SHOWN[1], seconds.items(), key=lambda item: item[1])
    return tuple(Slow(_name(output), took) for output, took in found if took >= _LONG)


def _name(output: str) -> str:
    return PurePath(output.replace("\\", "/")).name.removesuffix(".o").removesuffix(".obj")


def _cut(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"
