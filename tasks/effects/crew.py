"""How many compilers are at work: what cores and memory allow, and fewer after one was killed.

Where Ninja obeys a jobserver it gets one that a governor keeps to what memory is there; else, or
where build.jobs says so, a fixed number. Either is halved when a compiler ran out of memory all the
same, and Ninja goes on from what is done.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePath

from tasks.effects import capacity, jobserver, memory
from tasks.effects.voice import warn
from tasks.errors import CommandFailedError
from tasks.governor import decide
from tasks.killed import CAUSE, is_full, killed

Take = Callable[[str], None]  # one line of a build

_ATTEMPTS = 3  # with fewer jobs, after the first
_TAIL = 20_000  # lines that are searched for what was killed


@dataclass
class Crew:
    """Compilers at once: `jobs` is a fixed number, None for the pool in the folder `pool`;
    `expected` are MiB by output.

    What it saw is there while the build is at work and after it, however that ended: `peaks`, MiB
    at the most by output, the outputs whose compilers were `killed`, and how many jobs there may
    have been at once, `allowed`.
    """

    jobs: int | None
    pool: PurePath
    expected: Mapping[str, int]
    most: int = field(default_factory=capacity.cores)
    at_work: jobserver.Pool | None = None
    busiest: int = 0
    allowed: int = 0
    killed: tuple[str, ...] = ()
    peaks: dict[str, int] = field(default_factory=dict)

    def work(self, start: Callable[[int | None, Mapping[str, str], Take], None]) -> None:
        """Call `start(jobs, env, take)`, which runs the build and hands each of its lines to
        `take`; again with half as many jobs where a compiler was killed.

        Raises the build's `CommandFailedError`, with the cause where that was memory.
        """
        for attempt in range(_ATTEMPTS + 1):
            lines: deque[str] = deque(maxlen=_TAIL)
            try:
                with self._pool() as env:
                    start(self.jobs, env, lines.append)
            except CommandFailedError as error:
                culprits = killed(lines)
                if not culprits:
                    _explain(error, lines)
                    raise
                self.killed = tuple(dict.fromkeys((*self.killed, *culprits)))
                self.expected = {**self.expected, **self.peaks}
                more = {name: 2 * self.expected.get(name, 0) for name in culprits}
                self.expected = {**self.expected, **more}
                now = self._halve()
                if attempt == _ATTEMPTS or not now:
                    _give_up(error, culprits)
                    raise
                warn(f"no memory was left for {_named(culprits)}: going on with {now} at once")
            else:
                return

    def notes(self) -> str:
        """`6 jobs, 2 held back, 3.1 GiB free`: what is at work now, and why not more."""
        if not self.at_work:
            return _free()
        held = f"{self.at_work.withheld} held back" if self.at_work.withheld else ""
        jobs = f"{self.at_work.in_use} job{'s' * (self.at_work.in_use != 1)}"
        return ", ".join(filter(None, (jobs, held, _free())))

    @contextmanager
    def _pool(self) -> Iterator[Mapping[str, str]]:
        self.allowed = self.jobs or self.most
        if self.jobs:
            yield {}
            return
        pool = None
        try:
            with jobserver.pool(Path(self.pool), self.most, decide, self.expected) as pool:
                self.at_work = pool
                yield pool.environment()
        finally:
            self.at_work = None
            self.busiest = pool.busiest if pool else 0
            self.peaks.update(pool.peaks if pool else {})

    def _halve(self) -> int:
        """Half as many jobs as before; 0 where there was one."""
        if self.jobs:
            half = self.jobs // 2
            self.jobs = half or 1
        else:
            half = min(self.most, self.busiest or self.most) // 2
            self.most = half or 1
        return half


def _explain(error: CommandFailedError, lines: Iterable[str]) -> None:
    if is_full(lines):
        error.todo = (
            "the disk is full (disk-full): free some room and run the same command again, which "
            "goes on from what is done"
        )


def _free() -> str:
    """Memory that the tightest limit leaves."""
    return f"{memory.measure(_groups()).available_mib / 1024:.1f} GiB free"


_groups = cache(memory.groups)  # they stay the same as long as a process lives


def _give_up(error: CommandFailedError, culprits: tuple[str, ...]) -> None:
    error.todo = (
        f"{_named(culprits)} needs more memory than there is ({CAUSE[os.name]}): close other "
        "programs, add swap, or take what needs it out of the build"
    )


def _named(culprits: tuple[str, ...]) -> str:
    names = [Path(output).name for output in culprits if output != "?"]
    return ", ".join(names) or "a compiler"
