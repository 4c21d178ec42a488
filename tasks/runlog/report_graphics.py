"""Lay out the stage graph and the build timeline of a report."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.runlog import run_statistics
from tasks.runlog.run_record import Run, Sample, StageNode
from tasks.runlog.run_statistics import OUTPUT_KINDS, StageEdge, compute_span


@dataclass(frozen=True)
class GraphRow:
    """The row of a stage in the stage graph.

    `rail` is the column of the stage. `nearest` are its dependencies that no other dependency
    implies, and `after` are their columns. `through` are the columns whose lines pass this row.
    If `down` is True, a line begins here, because a later stage depends on this one.
    """

    name: str
    rail: int
    after: tuple[int, ...]
    through: tuple[int, ...]
    down: bool
    nearest: tuple[str, ...]


def lay_out_graph(graph: Sequence[StageNode]) -> tuple[GraphRow, ...]:
    """Return the rows of the stage graph in plan order: each stage follows its dependencies."""
    predecessors = find_predecessors(graph)
    nearest: dict[str, tuple[str, ...]] = {}
    for node in graph:
        direct = [one for one in dict.fromkeys(node.after) if one in predecessors[node.name]]
        implied = frozenset[str]().union(*(predecessors[one] for one in direct))
        nearest[node.name] = tuple(one for one in direct if one not in implied)
    last = {name: node.name for node in graph for name in nearest[node.name]}
    occupied: dict[int, str] = {}
    rows = []
    for node in graph:
        after = {column: name for column, name in occupied.items() if name in nearest[node.name]}
        for column in [column for column, name in after.items() if last[name] == node.name]:
            del occupied[column]
        through = tuple(sorted(occupied))
        column = next(number for number in range(len(occupied) + 1) if number not in occupied)
        if node.name in last:
            occupied[column] = node.name
        slots, down = tuple(sorted(after)), node.name in last
        rows.append(GraphRow(node.name, column, slots, through, down, nearest[node.name]))
    return tuple(rows)


def find_predecessors(graph: Sequence[StageNode]) -> Mapping[str, frozenset[str]]:
    """Return all direct and indirect dependencies of each stage."""
    predecessors: dict[str, frozenset[str]] = {}
    for node in graph:
        direct = [name for name in node.after if name in predecessors]
        predecessors[node.name] = frozenset(direct).union(*(predecessors[name] for name in direct))
    return predecessors


def build_timeline(run: Run, built: Sequence[StageEdge]) -> dict[str, Any]:
    """Return the timeline as JSON data: times in milliseconds, memory in MiB, unknown values as -1.

    A row of `edges` has folder, name, start, duration, job slot, peak memory, output kind, stage,
    and failure (0 or 1). A row of `samples` has time, jobs, jobs held back, used memory and limit.
    """
    edges = [one.edge for one in built]
    slots = run_statistics.assign_slots(edges)
    folders = _number_names(edge.output.removesuffix(edge.name) for edge in edges)
    stages = _number_names(one.stage for one in built)
    spans = (compute_span(one.edge for one in built if one.stage == stage) for stage in stages)
    return {
        "folders": list(folders),
        "stages": [
            [stage, *map(_convert_to_milliseconds, span)]
            for stage, span in zip(stages, spans, strict=True)
        ],
        "kinds": list(OUTPUT_KINDS),
        "lanes": max(slots, default=-1) + 1,
        "edges": [
            [
                folders[one.edge.output.removesuffix(one.edge.name)],
                one.edge.name,
                *map(_convert_to_milliseconds, (one.edge.began, one.edge.seconds)),
                slot,
                _encode_optional(one.edge.peak_mib),
                OUTPUT_KINDS.index(run_statistics.classify_output(one.edge.output)),
                stages[one.stage],
                int(one.edge.failed),
            ]
            for one, slot in zip(built, slots, strict=True)
        ],
        "samples": [
            [
                _convert_to_milliseconds(one.at),
                *map(_encode_optional, (one.jobs, one.held_back, one.used_mib, one.limit_mib)),
            ]
            for one in list_samples(run)
        ],
    }


def list_samples(run: Run) -> list[Sample]:
    """Return the samples of all stages in one list, ordered by time."""
    return sorted((one for stage in run.stages for one in stage.samples), key=lambda one: one.at)


def encode_embedded_json(value: Any) -> str:
    """Return `value` as JSON in which no text can end the enclosing HTML `<script>` element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _number_names(names: Iterable[str]) -> dict[str, int]:
    return {name: place for place, name in enumerate(dict.fromkeys(names))}


def _encode_optional(count: int | None) -> int:
    return -1 if count is None else count


def _convert_to_milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
