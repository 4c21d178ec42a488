"""What the path of an output tells: its kind, its name, and the folder that its source is in."""

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
_FOLDER_DEPTH = 3  # folders of a path that are told apart


def classify_output(output: str) -> OutputKind:
    """By its suffix: `a.cu.o` is CUDA, `a.cpp.o` C and C++, `libc10.so` linked."""
    if _CUDA_OUTPUT.search(output):
        return "CUDA"
    if _OBJECT_OUTPUT.search(output):
        return "C and C++"
    return "linked" if _LINKED_OUTPUT.search(output) else "other"


def find_source_folder(output: str) -> str:
    """The folder of the source as CMake names it, without its own: of
    `caffe2/CMakeFiles/torch_cpu.dir/__/aten/src/ATen/native/Copy.cpp.o` it is `aten/src/ATen`.
    """
    path = _CMAKE_FOLDER.sub(r"\1", output.replace("\\", "/"))
    parts: list[str] = []
    for part in path.split("/")[:-1]:
        if part in {"__", ".."}:
            del parts[-1:]
        elif part not in {"", "."}:
            parts.append(part)
    return "/".join(parts[:_FOLDER_DEPTH]) or "."


def extract_output_name(output: str) -> str:
    """The last part of its path."""
    return output.replace("\\", "/").rsplit("/", 1)[-1]


MAX_SLOWEST, MAX_FOLDERS = 50, 25


@dataclass(frozen=True)
class StageEdge:
    """An edge, and the stage that it is of."""

    stage: str
    edge: Edge

    @property
    def key(self) -> tuple[str, str]:
        """What it is the same by in another run."""
        return self.stage, self.edge.output


@dataclass(frozen=True)
class FolderTime:
    """What was made in a folder: `seconds` are those of its edges together, `share` of all of them,
    `peak_mib` that of the largest.
    """

    path: str
    edges: int
    seconds: float
    share: float
    peak_mib: int | None


def list_edges(run: Run) -> tuple[StageEdge, ...]:
    """All that was made, in the order in which it began."""
    found = [StageEdge(stage.name, edge) for stage in run.stages for edge in stage.edges]
    return tuple(sorted(found, key=lambda one: (one.edge.began, one.edge.ended, one.key)))


def find_slowest(found: Iterable[StageEdge]) -> list[StageEdge]:
    """Those that took longest, the longest first."""
    return nlargest(MAX_SLOWEST, found, key=lambda one: (one.edge.seconds, one.key))


def summarize_folders(found: Iterable[StageEdge]) -> list[FolderTime]:
    """Where the time went, most first; what comes after the first 25 is one row."""
    by_path: dict[str, list[Edge]] = {}
    for one in found:
        by_path.setdefault(find_source_folder(one.edge.output), []).append(one.edge)
    total = sum(edge.seconds for made in by_path.values() for edge in made)
    rows = [_summarize_folder(path, made, total) for path, made in by_path.items()]
    rows.sort(key=lambda row: (-row.seconds, row.path))
    rest = [edge for row in rows[MAX_FOLDERS:] for edge in by_path[row.path]]
    others = (
        [_summarize_folder(f"{len(rows) - MAX_FOLDERS} other folders", rest, total)] if rest else []
    )
    return rows[:MAX_FOLDERS] + others


def _summarize_folder(path: str, made: list[Edge], total: float) -> FolderTime:
    seconds = sum(edge.seconds for edge in made)
    peaks = (edge.peak_mib for edge in made if edge.peak_mib is not None)
    share = seconds / total if total else 0.0
    return FolderTime(path, len(made), seconds, share, max(peaks, default=None))


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
