"""Lay out the stage graph and the build timeline of a report."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.runlog import run_statistics
from tasks.runlog.run_record import Run, Sample, StageNode
from tasks.runlog.run_statistics import OUTPUT_KINDS, StageEdge


@dataclass(frozen=True)
class GraphRow:
    """A stage's row in the stage graph. A line in one column leads to the last dependent stage.

    `rail` is the column of the stage. `after` are the columns of its dependencies, `through` the
    columns of lines that cross the row. `down` is True if another stage depends on the stage.
    `nearest` are the direct dependencies that no other dependency implies.
    """

    name: str
    rail: int
    after: tuple[int, ...]
    through: tuple[int, ...]
    down: bool
    nearest: tuple[str, ...]


def lay_out_graph(graph: Sequence[StageNode]) -> tuple[GraphRow, ...]:
    """Return the rows of the stage graph in plan order: each stage follows its dependencies."""
    nearest = _find_nearest(graph)
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


def _find_nearest(graph: Sequence[StageNode]) -> Mapping[str, tuple[str, ...]]:
    predecessors = find_predecessors(graph)
    return {
        node.name: tuple(
            name
            for name in dict.fromkeys(node.after)
            if name in predecessors[node.name]
            and not any(name in predecessors[other] for other in node.after)
        )
        for node in graph
    }


def build_timeline(run: Run, built: Sequence[StageEdge]) -> dict[str, Any]:
    """Return the timeline data: milliseconds since the start, memory in MiB, -1 for unknown.

    A row of `edges` has folder, name, start, duration, job slot, peak memory, output kind, stage,
    failed. A row of `samples` has time, jobs, held back jobs, used memory and memory limit.
    """
    slots = run_statistics.assign_slots([one.edge for one in built])
    parts = [_split_output_path(one.edge.output) for one in built]
    folders = _number_names(folder for folder, _ in parts)
    stages = _number_names(one.stage for one in built)
    rows = [
        [
            folders[folder],
            name,
            _convert_to_milliseconds(one.edge.began),
            _convert_to_milliseconds(one.edge.seconds),
            slot,
            _encode_optional(one.edge.peak_mib),
            OUTPUT_KINDS.index(run_statistics.classify_output(one.edge.output)),
            stages[one.stage],
            int(one.edge.failed),
        ]
        for one, slot, (folder, name) in zip(built, slots, parts, strict=True)
    ]
    return {
        "folders": list(folders),
        "stages": [[stage, *_compute_stage_bounds(stage, built)] for stage in stages],
        "kinds": list(OUTPUT_KINDS),
        "lanes": max(slots, default=-1) + 1,
        "edges": rows,
        "samples": list(map(_encode_sample, list_samples(run))),
    }


def list_samples(run: Run) -> list[Sample]:
    """Return the samples of all stages by time. The stages share one jobserver and one memory."""
    return sorted((one for stage in run.stages for one in stage.samples), key=lambda one: one.at)


def encode_embedded_json(value: Any) -> str:
    """Return `value` as JSON in which no text can end the enclosing HTML `<script>` element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _encode_sample(one: Sample) -> list[int]:
    counts = (one.jobs, one.held_back, one.used_mib, one.limit_mib)
    return [_convert_to_milliseconds(one.at), *map(_encode_optional, counts)]


def _compute_stage_bounds(stage: str, built: Iterable[StageEdge]) -> Iterable[int]:
    span = run_statistics.compute_span(one.edge for one in built if one.stage == stage)
    return map(_convert_to_milliseconds, span)


def _split_output_path(output: str) -> tuple[str, str]:
    """Split a path into the directory with its trailing slash, and the file name."""
    name_start = max(output.rfind("/"), output.rfind("\\")) + 1
    return output[:name_start], output[name_start:]


def _number_names(names: Iterable[str]) -> dict[str, int]:
    return {name: place for place, name in enumerate(dict.fromkeys(names))}


def _encode_optional(count: int | None) -> int:
    return -1 if count is None else count


def _convert_to_milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
