"""Edges on the slots of a pool, and how many were at work at once. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import groupby

from tasks.runlog.record import Edge


def assign_slots(edges: Sequence[Edge]) -> tuple[int, ...]:
    """A lane for each edge, in the order of `edges`: the lowest that is free when it begins.

    A pool has no names for its slots; so many lanes are needed as edges overlap at the most.
    """
    lanes = [0] * len(edges)
    busy: list[tuple[float, int]] = []
    free: list[int] = []
    for place in sorted(range(len(edges)), key=lambda one: (edges[one].began, edges[one].ended)):
        while busy and busy[0][0] <= edges[place].began:
            heappush(free, heappop(busy)[1])
        lane = heappop(free) if free else len(busy)
        lanes[place] = lane
        heappush(busy, (edges[place].ended, lane))
    return tuple(lanes)


def compute_concurrency(edges: Iterable[Edge]) -> Iterator[tuple[float, int]]:
    """`(at, jobs)` where the number of edges at work changes, in order of time."""
    turns = [turn for one in edges for turn in ((one.began, 1), (one.ended, -1))]
    jobs = before = 0
    for at, same in groupby(sorted(turns), key=lambda turn: turn[0]):
        jobs += sum(change for _, change in same)
        if jobs != before:
            yield at, jobs
        before = jobs


def compute_span(edges: Iterable[Edge]) -> tuple[float, float]:
    """From the first begin to the last end; of no edges (0, 0)."""
    times = [time for one in edges for time in (one.began, one.ended)]
    return min(times, default=0.0), max(times, default=0.0)


def compute_mean_jobs(edges: Sequence[Edge]) -> float:
    """How many were at work at once, in the mean over their span."""
    first, last = compute_span(edges)
    return sum(one.seconds for one in edges) / (last - first) if last > first else 0.0
