"""Compute the statistics of a run: output kinds, durations, folders, parallelism, comparisons."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush, nlargest
from itertools import groupby
from typing import Literal

from tasks.runlog.run_record import Edge, Run

OutputKind = Literal["C and C++", "CUDA", "linked", "other"]
OUTPUT_KINDS: tuple[OutputKind, ...] = ("C and C++", "CUDA", "linked", "other")

_CUDA_OUTPUT = re.compile(r"\.(cu|hip)\.(o|obj)$|\.cubin$|\.fatbin$")
_OBJECT_OUTPUT = re.compile(r"\.(o|obj)$")
_LINKED_OUTPUT = re.compile(r"\.(a|lib|so(\.\d+)*|dll|dylib|pyd|exe)$")
_CMAKE_FOLDER = re.compile(r"(^|/)CMakeFiles/[^/]+\.dir(?=/)")
_FOLDER_DEPTH = 3  # levels of the path that are distinguished


def classify_output(output: str) -> OutputKind:
    """Return the kind of an output by its suffix: `a.cu.o` is CUDA, `a.cpp.o` is C and C++."""
    if _CUDA_OUTPUT.search(output):
        return "CUDA"
    if _OBJECT_OUTPUT.search(output):
        return "C and C++"
    return "linked" if _LINKED_OUTPUT.search(output) else "other"


def find_source_folder(output: str) -> str:
    """Return the source directory of an output, without the directories that CMake adds.

    For `caffe2/CMakeFiles/torch_cpu.dir/__/aten/src/ATen/native/Copy.cpp.o` it is `aten/src/ATen`.
    """
    path = _CMAKE_FOLDER.sub(r"\1", output.replace("\\", "/"))
    parts: list[str] = []
    for part in path.split("/")[:-1]:
        if part in {"__", ".."}:
            del parts[-1:]
        elif part not in {"", "."}:
            parts.append(part)
    return "/".join(parts[:_FOLDER_DEPTH]) or "."


MAX_SLOWEST, MAX_FOLDERS = 50, 25


@dataclass(frozen=True)
class StageEdge:
    """An edge and its stage."""

    stage: str
    edge: Edge

    @property
    def key(self) -> tuple[str, str]:
        """Return the key that identifies the same output in another run."""
        return self.stage, self.edge.output


@dataclass(frozen=True)
class FolderTime:
    """The outputs of one directory: their total seconds, share of the run and largest peak."""

    path: str
    edges: int
    seconds: float
    share: float
    peak_mib: int | None


def list_edges(run: Run) -> tuple[StageEdge, ...]:
    """Return all edges of a run in order of start."""
    edges = [StageEdge(stage.name, edge) for stage in run.stages for edge in stage.edges]
    return tuple(sorted(edges, key=lambda one: (one.edge.began, one.edge.ended, one.key)))


def find_slowest(found: Iterable[StageEdge]) -> list[StageEdge]:
    """Return the slowest edges, slowest first."""
    return nlargest(MAX_SLOWEST, found, key=lambda one: (one.edge.seconds, one.key))


def summarize_folders(found: Iterable[StageEdge]) -> list[FolderTime]:
    """Return the time by directory, most first. Directories after the first 25 are one row."""
    by_path: dict[str, list[Edge]] = {}
    for one in found:
        by_path.setdefault(find_source_folder(one.edge.output), []).append(one.edge)
    total = sum(edge.seconds for edges in by_path.values() for edge in edges)
    rows = [_summarize_folder(path, edges, total) for path, edges in by_path.items()]
    rows.sort(key=lambda row: (-row.seconds, row.path))
    rest = [edge for row in rows[MAX_FOLDERS:] for edge in by_path[row.path]]
    label = f"{len(rows) - MAX_FOLDERS} other folders"
    return rows[:MAX_FOLDERS] + ([_summarize_folder(label, rest, total)] if rest else [])


def _summarize_folder(path: str, built: list[Edge], total: float) -> FolderTime:
    seconds = sum(edge.seconds for edge in built)
    peaks = (edge.peak_mib for edge in built if edge.peak_mib is not None)
    share = seconds / total if total else 0.0
    return FolderTime(path, len(built), seconds, share, max(peaks, default=None))


def assign_slots(edges: Sequence[Edge]) -> tuple[int, ...]:
    """Return the slot of each edge, in the order of `edges`: the lowest free one at its start."""
    slots = [0] * len(edges)
    busy: list[tuple[float, int]] = []
    free: list[int] = []
    for index in sorted(range(len(edges)), key=lambda one: (edges[one].began, edges[one].ended)):
        while busy and busy[0][0] <= edges[index].began:
            heappush(free, heappop(busy)[1])
        slot = heappop(free) if free else len(busy)
        slots[index] = slot
        heappush(busy, (edges[index].ended, slot))
    return tuple(slots)


def compute_concurrency(edges: Iterable[Edge]) -> Iterator[tuple[float, int]]:
    """Yield `(at, jobs)` at each change of the number of running edges, in order of time."""
    turns = [turn for one in edges for turn in ((one.began, 1), (one.ended, -1))]
    jobs = before = 0
    for at, same in groupby(sorted(turns), key=lambda turn: turn[0]):
        jobs += sum(change for _, change in same)
        if jobs != before:
            yield at, jobs
        before = jobs


def compute_span(edges: Iterable[Edge]) -> tuple[float, float]:
    """Return the first start and the last end, (0, 0) without edges."""
    times = [time for one in edges for time in (one.began, one.ended)]
    return min(times, default=0.0), max(times, default=0.0)


def compute_mean_jobs(edges: Sequence[Edge]) -> float:
    """Return the mean number of edges that ran at once, over their span."""
    first, last = compute_span(edges)
    return sum(one.seconds for one in edges) / (last - first) if last > first else 0.0


_MIN_SECONDS, _MIN_SHARE = 0.5, 0.1
_MAX_SHOWN = 25
_COMPLETED_OUTCOMES = {"changed", "unchanged"}


@dataclass(frozen=True)
class DurationChange:
    """The duration of an output or a stage before and now, in seconds."""

    stage: str
    output: str
    before: float
    now: float

    @property
    def difference(self) -> float:
        """Return the additional seconds compared with before."""
        return self.now - self.before


@dataclass(frozen=True)
class Comparison:
    """The comparison of a run with an earlier one.

    `both` is the number of outputs in both runs; `before` and `now` are their total seconds. `new`
    outputs are only in this run, `gone` only in the earlier one. `slower` and `faster` are sorted
    by the difference, `stages` as they ran. `cached`: a compiler cache served one of the runs.
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
    """Return the earlier run that compares best with this one.

    Of `earlier`, newest first, the result is the first run with half of this run's outputs, else
    the run with most of them, else the first run in which a common stage completed.
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
    """Return the comparison of this run with an earlier one."""
    now, before = _collect_edge_seconds(run), _collect_edge_seconds(against)
    common_outputs = [DurationChange(*key, before[key], now[key]) for key in now if key in before]
    significant = [
        one
        for one in common_outputs
        if abs(one.difference) >= max(_MIN_SECONDS, _MIN_SHARE * one.before)
    ]
    changes = sorted(significant, key=lambda one: (-one.difference, one.output))
    return Comparison(
        against=against,
        both=len(common_outputs),
        before=sum(one.before for one in common_outputs),
        now=sum(one.now for one in common_outputs),
        new=len(now) - len(common_outputs),
        gone=len(before) - len(common_outputs),
        slower=tuple(one for one in changes if one.difference > 0)[:_MAX_SHOWN],
        faster=tuple(one for one in reversed(changes) if one.difference < 0)[:_MAX_SHOWN],
        stages=tuple(_compare_stages(run, against)),
        cached=any(stage.cache.get("hits") for one in (run, against) for stage in one.stages),
    )


def _collect_edge_seconds(run: Run) -> Mapping[tuple[str, str], float]:
    """Return the seconds by stage and output, without failed edges: their time is no measure."""
    return {one.key: one.edge.seconds for one in list_edges(run) if not one.edge.failed}


def _compare_stages(run: Run, against: Run) -> Iterator[DurationChange]:
    for stage in run.stages:
        before = against.find_stage(stage.name)
        if before and {before.outcome, stage.outcome} <= _COMPLETED_OUTCOMES:
            yield DurationChange(stage.name, "", before.seconds, stage.seconds)
