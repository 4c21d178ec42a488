"""What the page's timeline is drawn from, as small as it gets: columns of JSON. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from tasks.runlog.record import Run, Sample
from tasks.runlog.report.figures import StageEdge
from tasks.runlog.report.lanes import assign_slots, compute_span
from tasks.runlog.report.outputs import OUTPUT_KINDS, classify_output


def build_timeline(run: Run, made: Sequence[StageEdge]) -> dict[str, Any]:
    """Times are whole milliseconds since the run began, memory MiB; -1 stands for not known.

    `edges` are rows of folder, name, begin, duration, lane, peak, kind, stage and failed; `samples`
    of time, jobs, held back, used and limit.
    """
    lanes = assign_slots([one.edge for one in made])
    parts = [_split_output_path(one.edge.output) for one in made]
    folders, stages = (
        _number_names(folder for folder, _ in parts),
        _number_names(one.stage for one in made),
    )
    rows = [
        [
            folders[folder],
            name,
            _convert_to_milliseconds(one.edge.began),
            _convert_to_milliseconds(one.edge.seconds),
            lane,
            _encode_optional(one.edge.peak_mib),
            OUTPUT_KINDS.index(classify_output(one.edge.output)),
            stages[one.stage],
            int(one.edge.failed),
        ]
        for one, lane, (folder, name) in zip(made, lanes, parts, strict=True)
    ]
    return {
        "folders": list(folders),
        "stages": [_compute_stage_bounds(stage, made) for stage in stages],
        "kinds": list(OUTPUT_KINDS),
        "lanes": max(lanes, default=-1) + 1,
        "edges": rows,
        "samples": [_encode_sample(one) for one in list_samples(run)],
    }


def list_samples(run: Run) -> list[Sample]:
    """Those of all stages: the pool and the memory are one."""
    return sorted((one for stage in run.stages for one in stage.samples), key=lambda one: one.at)


def encode_embedded_json(value: Any) -> str:
    """JSON that no HTML parser takes for the end of a script, whatever is in it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _encode_sample(one: Sample) -> list[int]:
    counts = (one.jobs, one.held_back, one.used_mib, one.limit_mib)
    return [_convert_to_milliseconds(one.at), *map(_encode_optional, counts)]


def _compute_stage_bounds(stage: str, made: Iterable[StageEdge]) -> list[Any]:
    first, last = compute_span(one.edge for one in made if one.stage == stage)
    return [stage, _convert_to_milliseconds(first), _convert_to_milliseconds(last)]


def _split_output_path(output: str) -> tuple[str, str]:
    """The folder with its slash, and the name."""
    cut = max(output.rfind("/"), output.rfind("\\")) + 1
    return output[:cut], output[cut:]


def _number_names(names: Iterable[str]) -> dict[str, int]:
    return {name: place for place, name in enumerate(dict.fromkeys(names))}


def _encode_optional(count: int | None) -> int:
    return -1 if count is None else count


def _convert_to_milliseconds(seconds: float) -> int:
    return round(seconds * 1000)
