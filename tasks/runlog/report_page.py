"""The values of templates/report.html.j2: everything on the page that is text or a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tasks.core.text_formatting import format_duration, format_size
from tasks.runlog import edge_statistics, report_text
from tasks.runlog.build_results import BuildResults
from tasks.runlog.edge_statistics import StageEdge, assign_slots, compute_mean_jobs, compute_span
from tasks.runlog.report_graphics import (
    GraphRow,
    build_timeline,
    encode_embedded_json,
    lay_out_graph,
    list_samples,
)
from tasks.runlog.run_comparison import Comparison
from tasks.runlog.run_record import Run

_TICK_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400)
_MAX_TICKS, _LAST_TICK = 6, 0.93  # so that none stands over the edge
_BLANK_ROW = GraphRow("", 0, (), (), False, ())


def build_page_values(
    run: Run, title: str, came: BuildResults, compared: Comparison | None, *, newest: bool
) -> dict[str, Any]:
    """All that the template asks for. `newest`: no later run can have changed what lies there."""
    made = edge_statistics.list_edges(run)
    outcomes = report_text.describe_outcomes(run)
    return {
        "run": run,
        "headline": title,
        "when": run.when[:19].replace("T", " "),
        "failures": [(stage.name, told) for stage, told in report_text.list_failures(run)],
        "settings": [
            ("Asked", list(report_text.list_settings(run)), "nothing but the defaults"),
            ("Decided", list(report_text.list_decisions(run)), "nothing is known of it"),
            ("Host", list(report_text.describe_host(run)), "nothing is known of it"),
        ],
        "came": came,
        "newest": newest,
        "counts": Counter(check.status for check in came.checks),
        "stages": list(_build_stage_rows(run, outcomes, compared)),
        "ticks": _compute_ticks(run.seconds),
        "made": _summarize_edges(run, made) if made else None,
        "drawing": encode_embedded_json(build_timeline(run, made)) if made else "",
        "lost": edge_statistics.find_slowest(one for one in made if one.edge.failed),
        "slowest": edge_statistics.find_slowest(made),
        "folders": edge_statistics.summarize_folders(made),
        "caches": list(_list_cache_counts(run)),
        "compared": compared,
        "warnings": list(report_text.list_warnings(run)),
        "said": [one for one in run.messages if one.kind != "warn"],
        "elapsed": format_duration,
        "size": format_size,
        "delta": format_delta,
    }


def format_delta(seconds: float) -> str:
    """`+3.2 s`, `−12 s`."""
    return f"{'+' if seconds >= 0 else '−'}{format_duration(abs(seconds))}"


def _build_stage_rows(
    run: Run, outcomes: Mapping[str, str], compared: Comparison | None
) -> Iterator[dict[str, Any]]:
    rails = {row.name: row for row in lay_out_graph(run.graph)}
    moved = {one.stage: one for one in compared.stages} if compared else {}
    for name, outcome in outcomes.items():
        did = run.find_stage(name)
        yield {
            "name": name,
            "outcome": outcome,
            "reason": did.full_reason if did else "",
            "seconds": did.seconds if did else None,
            "left": 100 * did.began / run.seconds if did and run.seconds else 0,
            "width": 100 * did.seconds / run.seconds if did and run.seconds else 0,
            "moved": moved.get(name),
            "rail": rails.get(name, _BLANK_ROW),
        }


def _compute_ticks(seconds: float) -> list[tuple[float, str]]:
    """Where the marks of an axis stand, as a share of 100, and what they say."""
    if seconds <= 0:
        return []
    step = next((one for one in _TICK_STEPS if seconds / one <= _MAX_TICKS), seconds / _MAX_TICKS)
    times = [place * step for place in range(int(seconds / step) + 1)]
    return [
        (100 * at / seconds, _format_tick(at, seconds))
        for at in times
        if at <= _LAST_TICK * seconds
    ]


def _format_tick(at: float, seconds: float) -> str:
    if seconds < 60:
        return f"{at:.1f}".removesuffix(".0") + " s"
    minutes, rest = divmod(int(at), 60)
    return f"{minutes}:{rest:02}" if seconds < 3600 else f"{minutes // 60}:{minutes % 60:02} h"


def _summarize_edges(run: Run, made: Sequence[StageEdge]) -> dict[str, Any]:
    found = [one.edge for one in made]
    first, last = compute_span(found)
    looks = list_samples(run)
    return {
        "edges": len(found),
        "failed": sum(edge.failed for edge in found),
        "seconds": sum(edge.seconds for edge in found),
        "span": last - first,
        "lanes": max(assign_slots(found)) + 1,
        "mean": compute_mean_jobs(found),
        "peak": _compute_maximum(edge.peak_mib for edge in found),
        "used": _compute_maximum(one.used_mib for one in looks),
        "limit": _compute_maximum(one.limit_mib for one in looks),
        "withheld": _compute_maximum(one.held_back for one in looks),
    }


def _compute_maximum(counts: Iterable[int | None]) -> int | None:
    return max((count for count in counts if count is not None), default=None)


def _list_cache_counts(run: Run) -> Iterator[tuple[str, int, int]]:
    for stage in run.stages:
        hits, misses = (stage.cache.get(name) for name in ("hits", "misses"))
        if isinstance(hits, int) and isinstance(misses, int) and hits + misses:
            yield stage.name, hits, misses
