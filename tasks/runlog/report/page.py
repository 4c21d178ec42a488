"""The values of templates/report.html.j2: everything on the page that is text or a table. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tasks.core.formatting.duration import elapsed
from tasks.core.formatting.size import size
from tasks.runlog.record import Run
from tasks.runlog.report import figures, words
from tasks.runlog.report.cameout import CameOut
from tasks.runlog.report.comparison import Comparison
from tasks.runlog.report.drawing import drawing, embedded, samples
from tasks.runlog.report.figures import At
from tasks.runlog.report.lanes import mean_jobs, packed, span
from tasks.runlog.report.rails import Row, rows

_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400)
_TICKS, _LAST_TICK = 6, 0.93  # so that none stands over the edge
_BLANK = Row("", 0, (), (), False, ())


def values(
    run: Run, title: str, came: CameOut, compared: Comparison | None, *, newest: bool
) -> dict[str, Any]:
    """All that the template asks for. `newest`: no later run can have changed what lies there."""
    made = figures.edges(run)
    outcomes = words.outcomes(run)
    return {
        "run": run,
        "headline": title,
        "when": run.when[:19].replace("T", " "),
        "failures": [(stage.name, told) for stage, told in words.failures(run)],
        "settings": [
            ("Asked", list(words.asked(run)), "nothing but the defaults"),
            ("Decided", list(words.decided(run)), "nothing is known of it"),
            ("Host", list(words.host(run)), "nothing is known of it"),
        ],
        "came": came,
        "newest": newest,
        "counts": Counter(check.status for check in came.checks),
        "stages": list(_stages(run, outcomes, compared)),
        "ticks": _ticks(run.seconds),
        "made": _made(run, made) if made else None,
        "drawing": embedded(drawing(run, made)) if made else "",
        "lost": figures.slowest(one for one in made if one.edge.failed),
        "slowest": figures.slowest(made),
        "folders": figures.folders(made),
        "caches": list(_caches(run)),
        "compared": compared,
        "warnings": list(words.warnings(run)),
        "said": [one for one in run.said if one.kind != "warn"],
        "elapsed": elapsed,
        "size": size,
        "delta": delta,
    }


def delta(seconds: float) -> str:
    """`+3.2 s`, `−12 s`."""
    return f"{'+' if seconds >= 0 else '−'}{elapsed(abs(seconds))}"


def _stages(
    run: Run, outcomes: Mapping[str, str], compared: Comparison | None
) -> Iterator[dict[str, Any]]:
    rails = {row.name: row for row in rows(run.graph)}
    moved = {one.stage: one for one in compared.stages} if compared else {}
    for name, outcome in outcomes.items():
        did = run.stage(name)
        yield {
            "name": name,
            "outcome": outcome,
            "reason": did.why if did else "",
            "seconds": did.seconds if did else None,
            "left": 100 * did.began / run.seconds if did and run.seconds else 0,
            "width": 100 * did.seconds / run.seconds if did and run.seconds else 0,
            "moved": moved.get(name),
            "rail": rails.get(name, _BLANK),
        }


def _ticks(seconds: float) -> list[tuple[float, str]]:
    """Where the marks of an axis stand, as a share of 100, and what they say."""
    if seconds <= 0:
        return []
    step = next((one for one in _STEPS if seconds / one <= _TICKS), seconds / _TICKS)
    times = [place * step for place in range(int(seconds / step) + 1)]
    return [(100 * at / seconds, _tick(at, seconds)) for at in times if at <= _LAST_TICK * seconds]


def _tick(at: float, seconds: float) -> str:
    if seconds < 60:
        return f"{at:.1f}".removesuffix(".0") + " s"
    minutes, rest = divmod(int(at), 60)
    return f"{minutes}:{rest:02}" if seconds < 3600 else f"{minutes // 60}:{minutes % 60:02} h"


def _made(run: Run, made: Sequence[At]) -> dict[str, Any]:
    found = [one.edge for one in made]
    first, last = span(found)
    looks = samples(run)
    return {
        "edges": len(found),
        "failed": sum(edge.failed for edge in found),
        "seconds": sum(edge.seconds for edge in found),
        "span": last - first,
        "lanes": max(packed(found)) + 1,
        "mean": mean_jobs(found),
        "peak": _most(edge.peak_mib for edge in found),
        "used": _most(one.used_mib for one in looks),
        "limit": _most(one.limit_mib for one in looks),
        "withheld": _most(one.held_back for one in looks),
    }


def _most(counts: Iterable[int | None]) -> int | None:
    return max((count for count in counts if count is not None), default=None)


def _caches(run: Run) -> Iterator[tuple[str, int, int]]:
    for stage in run.stages:
        hits, misses = (stage.cache.get(name) for name in ("hits", "misses"))
        if isinstance(hits, int) and isinstance(misses, int) and hits + misses:
            yield stage.name, hits, misses
