"""Compute the statistics of a run: output kinds, durations, folders, parallelism, comparisons."""

import posixpath
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
_CMAKE_PARENT = re.compile(r"(^|/)__(?=/|$)")  # CMake's name for `..`
_FOLDER_DEPTH = 3  # the number of path components to keep


def classify_output(output: str) -> OutputKind:
    """Return the kind of an output from its suffix: `a.cu.o` is CUDA, `a.cpp.o` is C and C++."""
    if _CUDA_OUTPUT.search(output):
        return "CUDA"
    if _OBJECT_OUTPUT.search(output):
        return "C and C++"
    return "linked" if _LINKED_OUTPUT.search(output) else "other"


def find_source_folder(output: str) -> str:
    """Return the first three levels of an output's source directory, without CMake's directories.

    `caffe2/CMakeFiles/torch_cpu.dir/__/aten/src/ATen/native/Copy.cpp.o` gives `aten/src/ATen`.
    """
    path = _CMAKE_FOLDER.sub(r"\1", output.replace("\\", "/"))
    path = _CMAKE_PARENT.sub(r"\1..", posixpath.dirname(path))
    parts = posixpath.normpath(f"/{path}").strip("/").split("/")
    return "/".join(parts[:_FOLDER_DEPTH]) or "."


MAX_SLOWEST, MAX_FOLDERS = 50, 25


@dataclass(frozen=True)
class StageEdge:
    """A Ninja edge and the name of the stage that ran it."""

    stage: str
    edge: Edge

    @property
    def key(self) -> tuple[str, str]:
        """Return the stage and output path, which identify the same edge in another run."""
        return self.stage, self.edge.output


@dataclass(frozen=True)
class FolderTime:
    """The edges of a directory: number, total seconds, share of the run and highest peak memory."""

    path: str
    edges: int
    seconds: float
    share: float
    peak_mib: int | None


def list_edges(run: Run) -> tuple[StageEdge, ...]:
    """Return the Ninja edges (build steps) of all stages of a run, in order of start."""
    edges = [StageEdge(stage.name, edge) for stage in run.stages for edge in stage.edges]
    return tuple(sorted(edges, key=lambda one: (one.edge.began, one.edge.ended, one.key)))


def find_slowest(found: Iterable[StageEdge]) -> list[StageEdge]:
    """Return the 50 slowest edges, slowest first."""
    return nlargest(MAX_SLOWEST, found, key=lambda one: (one.edge.seconds, one.key))


def summarize_folders(found: Iterable[StageEdge]) -> list[FolderTime]:
    """Return the time by directory, longest first. Directories after the first 25 share a row."""
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
    """Return the job slot of each edge: the lowest slot that is free when the edge starts."""
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
    """Yield the time and the number of running edges whenever this number changes."""
    turns = [turn for one in edges for turn in ((one.began, 1), (one.ended, -1))]
    jobs = before = 0
    for at, same in groupby(sorted(turns), key=lambda turn: turn[0]):
        jobs += sum(change for _, change in same)
        if jobs != before:
            yield at, jobs
        before = jobs


def compute_span(edges: Iterable[Edge]) -> tuple[float, float]:
    """Return the earliest start and the latest end of the edges, (0, 0) if none exist."""
    times = [time for one in edges for time in (one.began, one.ended)]
    return min(times, default=0.0), max(times, default=0.0)


_MIN_SECONDS, _MIN_SHARE = 0.5, 0.1
_MAX_SHOWN = 25
_COMPLETED_OUTCOMES = {"changed", "unchanged"}


@dataclass(frozen=True)
class DurationChange:
    """The seconds of an output in an earlier run and now, of the whole stage if `output` is ""."""

    stage: str
    output: str
    before: float
    now: float

    @property
    def difference(self) -> float:
        """Return the seconds added since the earlier run, negative if the duration decreased."""
        return self.now - self.before


@dataclass(frozen=True)
class Comparison:
    """The comparison of a run with an earlier one.

    `both` is the number of outputs in both runs; `before` and `now` are the total seconds of these
    outputs in the earlier and in this run. `new` is the number of outputs only in this run, `gone`
    only in the earlier run. `slower` and `faster` begin with the largest difference. `cached` is
    True if at least one of the runs had compiler cache hits.
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
    """Return the run in `earlier` to compare with `run`, `None` if none is similar.

    It is the newest run with at least half of the outputs of `run`, else the one with most of them,
    else the newest run with a common finished stage.
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
    """Compare `run` with the earlier run `against`."""
    now, before = _collect_edge_seconds(run), _collect_edge_seconds(against)
    common_outputs = [DurationChange(*key, before[key], now[key]) for key in now if key in before]
    changes = sorted(common_outputs, key=lambda one: (-one.difference, one.output))
    changes = [
        one for one in changes if abs(one.difference) >= max(_MIN_SECONDS, _MIN_SHARE * one.before)
    ]
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
    """Return the seconds by stage and output. Failed edges, which may end early, are left out."""
    return {one.key: one.edge.seconds for one in list_edges(run) if not one.edge.failed}


def _compare_stages(run: Run, against: Run) -> Iterator[DurationChange]:
    for stage in run.stages:
        before = against.find_stage(stage.name)
        if before and {before.outcome, stage.outcome} <= _COMPLETED_OUTCOMES:
            yield DurationChange(stage.name, "", before.seconds, stage.seconds)
