"""Convert a run to trace events for ui.perfetto.dev and chrome://tracing.

The format is the "Trace Event Format" of the Chromium project. Event `X` is a slice with `ts` and
`dur` in microseconds, `C` a counter and `i` an instant; `M` names a process or a thread.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from tasks.runlog import run_statistics
from tasks.runlog.run_record import Run

_STAGE_PROCESS, _JOBS_PROCESS = 1, 2
_COUNTER_FIELDS = {"memory": ("used_mib", "limit_mib"), "tokens": ("jobs", "held_back")}


def build_trace(run: Run) -> dict[str, Any]:
    """Return the trace of a run: the contents of trace.json."""
    edges = run_statistics.list_edges(run)
    return {
        "displayTimeUnit": "ms",
        "otherData": {"profile": run.profile, "when": run.when, "torchyard": run.torchyard},
        "traceEvents": [*_trace_stages(run), *_trace_jobs(edges), *_trace_instants(run)],
    }


def _trace_stages(run: Run) -> Iterator[dict[str, Any]]:
    yield _build_name_event("process_name", _STAGE_PROCESS, 0, f"torchyard {run.profile}: stages")
    for thread, stage in enumerate(run.stages, start=1):  # extension stages overlap
        yield _build_name_event("thread_name", _STAGE_PROCESS, thread, stage.name)
        args = {"outcome": stage.outcome or "unfinished", "reason": stage.full_reason}
        event = {"name": stage.name, "cat": "stage", "pid": _STAGE_PROCESS, "tid": thread}
        yield event | _build_slice_fields(stage.began, stage.seconds) | {"args": args}


def _trace_jobs(built: Sequence[run_statistics.StageEdge]) -> Iterator[dict[str, Any]]:
    yield _build_name_event("process_name", _JOBS_PROCESS, 0, "job slots")
    slots = run_statistics.assign_slots([one.edge for one in built])
    for slot in range(max(slots, default=-1) + 1):
        yield _build_name_event("thread_name", _JOBS_PROCESS, slot + 1, f"slot {slot + 1}")
    for one, slot in zip(built, slots, strict=True):
        edge = one.edge
        args = {"output": edge.output, "stage": one.stage, "failed": edge.failed}
        peak = {"peak_mib": edge.peak_mib} if edge.peak_mib is not None else {}
        event = {
            "name": edge.name,
            "cat": run_statistics.classify_output(edge.output),
            "pid": _JOBS_PROCESS,
            "tid": slot + 1,
        }
        yield event | _build_slice_fields(edge.began, edge.seconds) | {"args": args | peak}
    for at, jobs in run_statistics.compute_concurrency(one.edge for one in built):
        yield _build_counter_event("running edges", at, {"edges": jobs})


def _trace_instants(run: Run) -> Iterator[dict[str, Any]]:
    """Yield the trace events of the job and memory counters and of the warnings."""
    for stage in run.stages:
        for sample in stage.samples:
            for track, fields in _COUNTER_FIELDS.items():
                values = {field: getattr(sample, field) for field in fields}
                if known := {name: one for name, one in values.items() if one is not None}:
                    yield _build_counter_event(track, sample.at, known)
    for message in (one for one in run.messages if one.kind == "warn"):
        event = {"name": message.text, "cat": "warning", "ph": "i", "s": "g"}
        at = _convert_to_microseconds(message.at)
        yield {**event, "ts": at, "pid": _STAGE_PROCESS, "tid": 0}


def _build_name_event(what: str, process: int, thread: int, text: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": process, "tid": thread, "args": {"name": text}}


def _build_slice_fields(at: float, seconds: float) -> dict[str, Any]:
    return {"ph": "X", "ts": _convert_to_microseconds(at), "dur": _convert_to_microseconds(seconds)}


def _build_counter_event(text: str, at: float, values: dict[str, int]) -> dict[str, Any]:
    event = {"name": text, "ph": "C", "ts": _convert_to_microseconds(at)}
    return {**event, "pid": _JOBS_PROCESS, "tid": 0, "args": values}


def _convert_to_microseconds(seconds: float) -> int:
    return round(seconds * 1_000_000)
