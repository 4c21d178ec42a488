"""Build the values of templates/report.html.j2: all text and tables of the report page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tasks.core.text_formatting import format_duration, format_size
from tasks.runlog import report_graphics, run_statistics
from tasks.runlog.build_results import BuildResults
from tasks.runlog.run_record import Run, StageRun
from tasks.runlog.run_statistics import (
    Comparison,
    StageEdge,
    assign_slots,
    compute_mean_jobs,
    compute_span,
)

TextRow = tuple[str, str]
_FAILED_OUTCOMES = {"failed", "stopped", "", "not reached"}
_HOST_LABELS = {"system": "system", "machine": "machine", "cores": "cores", "python": "Python"}


def describe_outcomes(run: Run) -> Mapping[str, str]:
    """Return the outcome of each stage.

    A stage without an end in the record is reported as interrupted. A stage that did not run is "up
    to date", or "not reached" if a stage that it depends on failed.
    """
    outcomes: dict[str, str] = {}
    predecessors = report_graphics.find_predecessors(run.graph)
    for node in run.graph:
        stage_run = run.find_stage(node.name)
        if stage_run:
            outcomes[node.name] = stage_run.outcome
        else:
            unreached = run.outcome != "done" and any(
                outcomes[name] in _FAILED_OUTCOMES for name in predecessors[node.name]
            )
            outcomes[node.name] = "not reached" if unreached else "up to date"
    outcomes |= {one.name: one.outcome for one in run.stages if one.name not in outcomes}
    return {name: outcome or "cut off" for name, outcome in outcomes.items()}


def format_headline(run: Run, at_work: bool = False) -> str:
    """Return the headline: `Built in 6 min 20 s`, `compile failed after 6 min 20 s`.

    `at_work` is True if the process of the run is still running.
    """
    failed = [one.name for one in run.stages if one.outcome == "failed"]
    after = f"after {format_duration(run.seconds)}"
    match run.outcome:
        case "done":
            return (
                f"{'Built' if run.active_stages else 'Up to date'} in "
                f"{format_duration(run.seconds)}"
            )
        case "failed":
            return f"{', '.join(failed) or 'The run'} failed {after}"
        case "interrupted":
            return f"Interrupted {after}"
    return f"At work, {format_duration(run.seconds)} so far" if at_work else f"Cut off {after}"


def list_decisions(run: Run) -> Iterator[TextRow]:
    """Yield the decisions of the plan, the strategy with its reasons."""
    for key, value in run.resolution.items():
        text = (
            "; ".join(map(format_value, value)) if isinstance(value, list) else format_value(value)
        )
        yield key, text or "CPU" * (key == "targets")


def list_settings(run: Run) -> Iterator[TextRow]:
    """Yield the settings of the user. The keys of a table such as `build.flags` share one row."""
    rows: dict[str, list[str]] = {}
    for key, value in run.settings.items():
        section, _, name = key.partition(".")
        mapping, _, entry = name.partition(".")
        text = format_value(value)
        row = f"{section}.{mapping}" if entry else key
        rows.setdefault(row, []).append(f"{entry}: {text}" if entry else text)
    for row, texts in rows.items():
        yield row, ", ".join(texts)


def describe_host(run: Run) -> Iterator[TextRow]:
    """Yield the facts of the machine, without its name."""
    for key, label in _HOST_LABELS.items():
        if run.host.get(key) is not None:
            yield label, format_value(run.host[key])
    memory = run.host.get("memory_mib")
    if isinstance(memory, int | float):
        yield "memory", format_size(memory)
    gpus = run.host.get("gpus")
    if isinstance(gpus, list | tuple):
        names = [_format_gpu(gpu) for gpu in gpus]
        yield "cards", ", ".join(names) or "none seen"


def _format_gpu(card: Any) -> str:
    if not isinstance(card, Mapping):
        return str(card)
    return f"{card.get('name', 'unnamed')} ({card.get('capability', 'unknown')})"


def list_failures(run: Run) -> Iterator[tuple[StageRun, tuple[TextRow, ...]]]:
    """Yield each failed stage with its error and diagnosis, in reading order."""
    for stage in run.stages:
        if stage.outcome == "failed" or stage.error:
            yield stage, tuple(_describe_failure(stage))


def _describe_failure(stage: StageRun) -> Iterator[TextRow]:
    error, diagnosis = stage.error, stage.diagnosis
    first = diagnosis.get("first_error")
    rows = [
        ("what happened", error.get("what")),
        ("where", error.get("where")),
        ("first error", first.get("text") if isinstance(first, Mapping) else None),
        ("", _format_location(first) if isinstance(first, Mapping) else None),
        ("cause", _format_cause(diagnosis)),
        ("to do", diagnosis.get("remedy")),
        (
            "" if diagnosis.get("remedy") else "to do",
            _drop_duplicate_hint(error.get("todo"), diagnosis.get("remedy")),
        ),
        ("evidence", diagnosis.get("evidence")),
        ("whole log", diagnosis.get("log")),
    ]
    yield from ((key, format_value(value)) for key, value in rows if value)


def _drop_duplicate_hint(todo: Any, remedy: Any) -> Any:
    return None if todo == remedy else todo


def _format_location(first: Mapping[str, Any]) -> str:
    return f"{first.get('file', 'the log')}, line {first.get('line', 'unknown')}"


def _format_cause(known: Mapping[str, Any]) -> str:
    slug, explanation = known.get("cause"), known.get("explanation")
    if slug:
        return f"{explanation} ({slug})" if explanation else str(slug)
    candidates = known.get("candidates")
    if isinstance(candidates, list | tuple) and candidates:
        return f"not sure; it could be {' or '.join(map(str, candidates))}"
    return "not known" if known else ""


def list_warnings(run: Run) -> Iterator[TextRow]:
    """Yield each distinct warning with its stage."""
    yield from dict.fromkeys(
        (message.stage, message.text) for message in run.messages if message.kind == "warn"
    )


def format_value(value: Any) -> str:
    """Return the value of a setting or a decision as one line."""
    match value:
        case str():
            return value
        case bool():
            return str(value).lower()
        case None:
            return "none"
        case list() | tuple():
            return ", ".join(map(format_value, value)) or "none"
        case Mapping():
            return (
                ", ".join(f"{key}: {format_value(item)}" for key, item in value.items()) or "none"
            )
    return f"{value}"


_MAX_WARNINGS = 5


def format_markdown(run: Run, title: str, came: BuildResults) -> str:
    """Return the report as Markdown: versions, host, decisions, stages, failures, last warnings."""
    return "\n".join(_format_markdown_lines(run, title, came)) + "\n"


def _format_markdown_lines(run: Run, title: str, came: BuildResults) -> Iterator[str]:
    yield f"## {_escape_markdown(title)}"
    yield ""
    yield from _format_list(
        [("torchyard", run.torchyard), ("command", " ".join(("doit", *run.command)))]
    )
    yield from _format_list([("profile", run.profile), ("when", run.when)])
    yield from _format_section("Host", describe_host(run))
    yield from _format_section("Requested", list_settings(run))
    yield from _format_section("Decided", list_decisions(run))
    yield from _format_section("Came out", _format_results(came))
    outcomes = describe_outcomes(run).items()
    yield from _format_section(
        "Stages", [(name, _format_stage(run, name, outcome)) for name, outcome in outcomes]
    )
    for stage, rows in list_failures(run):
        yield from _format_section(f"{stage.name} failed", rows)
    last = list(list_warnings(run))[-_MAX_WARNINGS:]
    yield from _format_section(
        "Last warnings", ((stage or "torchyard", text) for stage, text in last)
    )


def _format_section(title: str, rows: Iterable[TextRow]) -> Iterator[str]:
    lines = list(_format_list(rows))
    if lines:
        yield from ("", f"### {_escape_markdown(title)}", "", *lines)


def _format_list(rows: Iterable[TextRow]) -> Iterator[str]:
    for key, value in rows:
        yield (
            f"- {_escape_markdown(key)}: {_format_inline_code(value)}"
            if key
            else f"  - {_format_inline_code(value)}"
        )


def _format_stage(run: Run, name: str, outcome: str) -> str:
    stage_run = run.find_stage(name)
    return (
        f"{outcome} in {format_duration(stage_run.seconds)}: {stage_run.full_reason}"
        if stage_run
        else outcome
    )


def _format_results(came: BuildResults) -> Iterator[TextRow]:
    if came.toolkit or came.python:
        versions = (f"CUDA {came.toolkit}" * bool(came.toolkit), f"Python {came.python}")
        yield "with", ", ".join(filter(None, versions))
    for part in came.parts:
        facts = (part.version, part.made_of, part.archs, part.sha256[:12])
        yield part.name, "; ".join(filter(None, facts))
    for check in came.checks:
        if check.status == "failed":
            yield f"validate: {check.name}", check.detail


def _format_inline_code(text: str) -> str:
    """Return `text` as Markdown inline code, which shows every character unchanged.

    The fence is longer than any run of backticks in the text.
    """
    text = " ".join(text.split())
    if not text:
        return "(empty)"
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    pad = " " if text[0] == "`" or text[-1] == "`" else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _escape_markdown(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>#|])", r"\\\1", " ".join(text.split()))


_TICK_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400)
_MAX_TICKS, _LAST_TICK = 6, 0.93  # keeps the last label inside the edge
_BLANK_ROW = report_graphics.GraphRow("", 0, (), (), False, ())


def build_page_values(
    run: Run, title: str, came: BuildResults, compared: Comparison | None, *, newest: bool
) -> dict[str, Any]:
    """Return all values that the template needs.

    `newest` is True if no later run can have changed the build results.
    """
    edges = run_statistics.list_edges(run)
    outcomes = describe_outcomes(run)
    return {
        "run": run,
        "headline": title,
        "when": run.when[:19].replace("T", " "),
        "failures": [(stage.name, rows) for stage, rows in list_failures(run)],
        "settings": [
            ("Requested", list(list_settings(run)), "nothing but the defaults"),
            ("Decided", list(list_decisions(run)), "not recorded"),
            ("Host", list(describe_host(run)), "not recorded"),
        ],
        "came": came,
        "newest": newest,
        "counts": Counter(check.status for check in came.checks),
        "stages": list(_build_stage_rows(run, outcomes, compared)),
        "ticks": _compute_ticks(run.seconds),
        "made": _summarize_edges(run, edges) if edges else None,
        "drawing": report_graphics.encode_embedded_json(report_graphics.build_timeline(run, edges))
        if edges
        else "",
        "lost": run_statistics.find_slowest(one for one in edges if one.edge.failed),
        "slowest": run_statistics.find_slowest(edges),
        "folders": run_statistics.summarize_folders(edges),
        "caches": list(_list_cache_counts(run)),
        "compared": compared,
        "warnings": list(list_warnings(run)),
        "said": [one for one in run.messages if one.kind != "warn"],
        "elapsed": format_duration,
        "size": format_size,
        "delta": format_delta,
    }


def format_delta(seconds: float) -> str:
    """Return a difference with its sign: `+3.2 s`, `−12 s`."""
    return f"{'+' if seconds >= 0 else '−'}{format_duration(abs(seconds))}"


def _build_stage_rows(
    run: Run, outcomes: Mapping[str, str], compared: Comparison | None
) -> Iterator[dict[str, Any]]:
    graph_rows = {row.name: row for row in report_graphics.lay_out_graph(run.graph)}
    comparisons = {one.stage: one for one in compared.stages} if compared else {}
    for name, outcome in outcomes.items():
        stage_run = run.find_stage(name)
        yield {
            "name": name,
            "outcome": outcome,
            "reason": stage_run.full_reason if stage_run else "",
            "seconds": stage_run.seconds if stage_run else None,
            "left": 100 * stage_run.began / run.seconds if stage_run and run.seconds else 0,
            "width": 100 * stage_run.seconds / run.seconds if stage_run and run.seconds else 0,
            "moved": comparisons.get(name),
            "rail": graph_rows.get(name, _BLANK_ROW),
        }


def _compute_ticks(seconds: float) -> list[tuple[float, str]]:
    """Return the position in percent and the label of each tick of the time axis."""
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
    edges = [one.edge for one in made]
    first, last = compute_span(edges)
    samples = report_graphics.list_samples(run)
    return {
        "edges": len(edges),
        "failed": sum(edge.failed for edge in edges),
        "seconds": sum(edge.seconds for edge in edges),
        "span": last - first,
        "lanes": max(assign_slots(edges)) + 1,
        "mean": compute_mean_jobs(edges),
        "peak": _compute_maximum(edge.peak_mib for edge in edges),
        "used": _compute_maximum(one.used_mib for one in samples),
        "limit": _compute_maximum(one.limit_mib for one in samples),
        "withheld": _compute_maximum(one.held_back for one in samples),
    }


def _compute_maximum(counts: Iterable[int | None]) -> int | None:
    return max((count for count in counts if count is not None), default=None)


def _list_cache_counts(run: Run) -> Iterator[tuple[str, int, int]]:
    for stage in run.stages:
        hits, misses = (stage.cache.get(name) for name in ("hits", "misses"))
        if isinstance(hits, int) and isinstance(misses, int) and hits + misses:
            yield stage.name, hits, misses
