"""Two runs beside each other: what got slower, by output and by stage.

Only what both made is compared. An output counts as slower or faster from half a second and a
tenth on: less is the machine's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tasks.runlog.edge_statistics import list_edges
from tasks.runlog.run_record import Run

_MIN_SECONDS, _MIN_SHARE = 0.5, 0.1
_MAX_SHOWN = 25
_COMPLETED_OUTCOMES = {"changed", "unchanged"}


@dataclass(frozen=True)
class DurationChange:
    """What an output, or a stage, took before and takes now, in seconds."""

    stage: str
    output: str
    before: float
    now: float

    @property
    def difference(self) -> float:
        """Seconds more than before."""
        return self.now - self.before


@dataclass(frozen=True)
class Comparison:
    """`both` outputs are in both runs, with the seconds of all of them; `new` in this one alone,
    `gone` in the earlier one. `slower` and `faster` are sorted by how much, `stages` as they ran.
    `cached`: a compiler cache served one of them.
    """

    against: Run
    both: int
    before: float
    now: float
    new: int
    gone: int
    slower: tuple[DurationChange, ...]
    faster: tuple[DurationChange, ...]
    stages: tuple[DurationChange, ...]
    cached: bool


def find_comparable_run(run: Run, earlier: Iterable[Run]) -> Run | None:
    """Of the runs before this one, newest first: the first that made half of what it made; else
    that with most of it; else the first in which one of its stages worked.
    """
    mine = _collect_edge_seconds(run).keys()
    most: tuple[int, Run | None] = (0, None)
    staged = None
    for one in earlier:
        shared = len(mine & _collect_edge_seconds(one).keys())
        if mine and 2 * shared >= len(mine):
            return one
        if shared > most[0]:
            most = shared, one
        staged = staged or (one if list(_compare_stages(run, one)) else None)
    return most[1] or staged


def compare_runs(run: Run, against: Run) -> Comparison:
    """This run beside an earlier one."""
    now, before = _collect_edge_seconds(run), _collect_edge_seconds(against)
    shared = [
        DurationChange(*key, before=before[key], now=seconds)
        for key, seconds in now.items()
        if key in before
    ]
    moved = sorted(filter(_is_significant, shared), key=lambda one: (-one.difference, one.output))
    return Comparison(
        against=against,
        both=len(shared),
        before=sum(one.before for one in shared),
        now=sum(one.now for one in shared),
        new=len(now) - len(shared),
        gone=len(before) - len(shared),
        slower=tuple(one for one in moved if one.difference > 0)[:_MAX_SHOWN],
        faster=tuple(one for one in reversed(moved) if one.difference < 0)[:_MAX_SHOWN],
        stages=tuple(_compare_stages(run, against)),
        cached=any(stage.cache.get("hits") for one in (run, against) for stage in one.stages),
    )


def _collect_edge_seconds(run: Run) -> Mapping[tuple[str, str], float]:
    """Seconds by stage and output; one that failed took what it took, and is no measure."""
    return {one.key: one.edge.seconds for one in list_edges(run) if not one.edge.failed}


def _compare_stages(run: Run, against: Run) -> Iterator[DurationChange]:
    for stage in run.stages:
        before = against.find_stage(stage.name)
        if before and {before.outcome, stage.outcome} <= _COMPLETED_OUTCOMES:
            yield DurationChange(stage.name, "", before.seconds, stage.seconds)


def _is_significant(one: DurationChange) -> bool:
    return abs(one.difference) >= max(_MIN_SECONDS, _MIN_SHARE * one.before)
