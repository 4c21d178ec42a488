"""What the page's timeline is drawn from, as small as it gets: columns of JSON. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from tasks.runlog.record import Run, Sample
from tasks.runlog.report.figures import At
from tasks.runlog.report.lanes import packed, span
from tasks.runlog.report.outputs import KINDS, kind


def drawing(run: Run, made: Sequence[At]) -> dict[str, Any]:
    """Times are whole milliseconds since the run began, memory MiB; -1 stands for not known.

    `edges` are rows of folder, name, begin, duration, lane, peak, kind, stage and failed; `samples`
    of time, jobs, held back, used and limit.
    """
    lanes = packed([one.edge for one in made])
    parts = [_split(one.edge.output) for one in made]
    folders, stages = _places(folder for folder, _ in parts), _places(one.stage for one in made)
    rows = [
        [
            folders[folder],
            name,
            _milli(one.edge.began),
            _milli(one.edge.seconds),
            lane,
            _known(one.edge.peak_mib),
            KINDS.index(kind(one.edge.output)),
            stages[one.stage],
            int(one.edge.failed),
        ]
        for one, lane, (folder, name) in zip(made, lanes, parts, strict=True)
    ]
    return {
        "folders": list(folders),
        "stages": [_bounds(stage, made) for stage in stages],
        "kinds": list(KINDS),
        "lanes": max(lanes, default=-1) + 1,
        "edges": rows,
        "samples": [_sample(one) for one in samples(run)],
    }


def samples(run: Run) -> list[Sample]:
    """Those of all stages: the pool and the memory are one."""
    return sorted((one for stage in run.stages for one in stage.samples), key=lambda one: one.at)


def embedded(value: Any) -> str:
    """JSON that no HTML parser takes for the end of a script, whatever is in it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _sample(one: Sample) -> list[int]:
    counts = (one.jobs, one.held_back, one.used_mib, one.limit_mib)
    return [_milli(one.at), *map(_known, counts)]


def _bounds(stage: str, made: Iterable[At]) -> list[Any]:
    first, last = span(one.edge for one in made if one.stage == stage)
    return [stage, _milli(first), _milli(last)]


def _split(output: str) -> tuple[str, str]:
    """The folder with its slash, and the name."""
    cut = max(output.rfind("/"), output.rfind("\\")) + 1
    return output[:cut], output[cut:]


def _places(names: Iterable[str]) -> dict[str, int]:
    return {name: place for place, name in enumerate(dict.fromkeys(names))}


def _known(count: int | None) -> int:
    return -1 if count is None else count


def _milli(seconds: float) -> int:
    return round(seconds * 1000)
