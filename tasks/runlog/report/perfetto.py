"""A run as the trace events that ui.perfetto.dev and chrome://tracing open. Pure.

The form is that of the "Trace Event Format" document of the Chromium project: `X` is a slice with
`ts` and `dur` in microseconds, `C` a counter, `i` an instant, `M` names a process or a thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tasks.runlog.record import Run, Sample
from tasks.runlog.report.figures import At, edges
from tasks.runlog.report.lanes import concurrency, packed
from tasks.runlog.report.outputs import kind, name

_STAGES, _POOL = 1, 2
_COUNTED = {
    "memory": ("used_mib", "limit_mib"),
    "tokens": ("jobs", "held_back"),
}


def trace(run: Run) -> dict[str, Any]:
    """The document of trace.json."""
    made = edges(run)
    return {
        "displayTimeUnit": "ms",
        "otherData": {"profile": run.profile, "when": run.when, "torchyard": run.torchyard},
        "traceEvents": [
            *_stages(run),
            *_pool(made),
            *_counters(run),
            *_warnings(run),
        ],
    }


def _stages(run: Run) -> Iterator[dict[str, Any]]:
    yield _named("process_name", _STAGES, 0, f"torchyard {run.profile}: stages")
    for thread, stage in enumerate(run.stages, start=1):  # extensions are at work side by side
        yield _named("thread_name", _STAGES, thread, stage.name)
        told = {"outcome": stage.outcome or "cut off", "reason": stage.why}
        place = {"name": stage.name, "cat": "stage", "pid": _STAGES, "tid": thread}
        yield place | _lasting(stage.began, stage.seconds) | {"args": told}


def _pool(made: Sequence[At]) -> Iterator[dict[str, Any]]:
    yield _named("process_name", _POOL, 0, "pool of jobs")
    lanes = packed([one.edge for one in made])
    for lane in range(max(lanes, default=-1) + 1):
        yield _named("thread_name", _POOL, lane + 1, f"slot {lane + 1}")
    for one, lane in zip(made, lanes, strict=True):
        edge = one.edge
        told = {"output": edge.output, "stage": one.stage, "failed": edge.failed}
        peak = {"peak_mib": edge.peak_mib} if edge.peak_mib is not None else {}
        shown = {"name": name(edge.output), "cat": kind(edge.output), "pid": _POOL, "tid": lane + 1}
        yield shown | _lasting(edge.began, edge.seconds) | {"args": told | peak}
    for at, jobs in concurrency(one.edge for one in made):
        yield _counter("edges at work", at, {"edges": jobs})


def _counters(run: Run) -> Iterator[dict[str, Any]]:
    for stage in run.stages:
        for sample in stage.samples:
            for track, fields in _COUNTED.items():
                if known := _known(sample, fields):
                    yield _counter(track, sample.at, known)


def _known(sample: Sample, fields: Sequence[str]) -> dict[str, int]:
    values = {field: getattr(sample, field) for field in fields}
    return {field: value for field, value in values.items() if value is not None}


def _warnings(run: Run) -> Iterator[dict[str, Any]]:
    for said in run.said:
        if said.kind == "warn":
            yield {
                "name": said.text,
                "cat": "warning",
                "ph": "i",
                "s": "g",
                "ts": _micro(said.at),
                "pid": _STAGES,
                "tid": 0,
            }


def _named(what: str, process: int, thread: int, text: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": text}}


def _lasting(at: float, seconds: float) -> dict[str, Any]:
    return {"ph": "X", "ts": _micro(at), "dur": _micro(seconds)}


def _counter(text: str, at: float, values: dict[str, int]) -> dict[str, Any]:
    return {"name": text, "ph": "C", "ts": _micro(at), "pid": _POOL, "tid": 0, "args": values}


def _micro(seconds: float) -> int:
    return round(seconds * 1_000_000)
