"""Build the values for templates/report.html.j2: the text and tables of the report page."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tasks.core.text_formatting import format_duration, format_size
from tasks.runlog import report_graphics, run_statistics
from tasks.runlog.build_results import BuildResults
from tasks.runlog.report_graphics import build_timeline, encode_embedded_json
from tasks.runlog.run_record import Run, StageRun, parse_mapping
from tasks.runlog.run_statistics import Comparison, StageEdge

TextRow = tuple[str, str]
_FAILED_OUTCOMES = {"failed", "stopped", "", "not reached"}
_HOST_LABELS = {"system": "system", "machine": "machine", "cores": "cores", "python": "Python"}


def describe_outcomes(run: Run) -> dict[str, str]:
    """Return the outcome of each stage; one that did not run is "up to date" or "not reached"."""
    outcomes: dict[str, str] = {}
    for name, predecessors in report_graphics.find_predecessors(run.graph).items():
        if stage_run := run.find_stage(name):
            outcomes[name] = stage_run.outcome
        else:
            failed = any(outcomes[before] in _FAILED_OUTCOMES for before in predecessors)
            outcomes[name] = "not reached" if failed and run.outcome != "done" else "up to date"
    outcomes |= {one.name: one.outcome for one in run.stages}
    return {name: outcome or "unfinished" for name, outcome in outcomes.items()}


def format_headline(run: Run, is_running: bool = False) -> str:
    """Return a headline such as `Built in 6 min 20 s` or `compile failed after 6 min 20 s`."""
    failed = [one.name for one in run.stages if one.outcome == "failed"]
    duration = format_duration(run.seconds)
    match run.outcome:
        case "done":
            return f"{'Built' if run.active_stages else 'Up to date'} in {duration}"
        case "failed":
            return f"{', '.join(failed) or 'The run'} failed after {duration}"
        case "interrupted":
            return f"Interrupted after {duration}"
    return f"Running for {duration} so far" if is_running else f"Unfinished after {duration}"


def list_decisions(run: Run) -> Iterator[TextRow]:
    """Yield the name and value of each decision of the plan."""
    for key, value in run.resolution.items():
        values = value if isinstance(value, list) else [value]
        yield key, "; ".join(map(format_value, values)) or "CPU" * (key == "targets")


def list_settings(run: Run) -> Iterator[TextRow]:
    """Yield the settings of the user as rows; keys of a table such as `build.flags` share a row."""
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
    """Yield the label and value of each fact about the host, without the host name."""
    for key, label in _HOST_LABELS.items():
        if run.host.get(key) is not None:
            yield label, format_value(run.host[key])
    memory = run.host.get("memory_mib")
    if isinstance(memory, int | float):
        yield "memory", format_size(memory)
    gpus = run.host.get("gpus")
    if isinstance(gpus, list | tuple):
        texts = (
            f"{gpu.get('name', 'unnamed')} ({gpu.get('capability', 'unknown')})"
            if isinstance(gpu, Mapping)
            else str(gpu)
            for gpu in gpus
        )
        yield "GPUs", ", ".join(texts) or "none found"


def list_failures(run: Run) -> Iterator[tuple[StageRun, tuple[TextRow, ...]]]:
    """Yield each failed stage with the labelled rows of its error and diagnosis."""
    for stage in run.stages:
        if stage.outcome != "failed" and not stage.error:
            continue
        error, diagnosis = stage.error, stage.diagnosis
        first = parse_mapping(diagnosis.get("first_error"))
        remedy, todo = diagnosis.get("remedy"), error.get("todo")
        rows = [
            ("what happened", error.get("what")),
            ("where", error.get("where")),
            ("first error", first.get("text")),
            ("", first and f"{first.get('file', 'the log')}, line {first.get('line', 'unknown')}"),
            ("cause", _format_cause(diagnosis)),
            ("to do", remedy),
            ("" if remedy else "to do", todo if todo != remedy else None),
            ("evidence", diagnosis.get("evidence")),
            ("full log", diagnosis.get("log")),
        ]
        yield stage, tuple((key, format_value(value)) for key, value in rows if value)


def _format_cause(known: Mapping[str, Any]) -> str:
    slug, explanation = known.get("cause"), known.get("explanation")
    if slug:
        return f"{explanation} ({slug})" if explanation else str(slug)
    candidates = known.get("candidates")
    if isinstance(candidates, list | tuple) and candidates:
        return f"not certain; possible causes: {', '.join(map(str, candidates))}"
    return "unknown" if known else ""


def list_warnings(run: Run) -> Iterator[TextRow]:
    """Yield the stage and text of each distinct warning."""
    yield from dict.fromkeys((one.stage, one.text) for one in run.messages if one.kind == "warn")


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
            items = (f"{key}: {format_value(item)}" for key, item in value.items())
            return ", ".join(items) or "none"
    return f"{value}"


_MAX_WARNINGS = 5


def format_markdown(run: Run, title: str, results: BuildResults) -> str:
    """Return the report as Markdown, with the stages, the failures and the last warnings."""
    command = ("command", " ".join(("doit", *run.command)))
    facts = [("torchyard", run.torchyard), command, ("profile", run.profile), ("when", run.when)]
    stages = describe_outcomes(run)
    for one in run.stages:
        stages[one.name] += f" in {format_duration(one.seconds)}: {one.full_reason}"
    warnings = [(stage or "torchyard", text) for stage, text in list_warnings(run)]
    sections: list[tuple[str, Iterable[TextRow]]] = [
        ("Host", describe_host(run)),
        ("Settings", list_settings(run)),
        ("Decisions", list_decisions(run)),
        ("Results", _format_results(results)),
        ("Stages", stages.items()),
        *((f"{stage.name} failed", rows) for stage, rows in list_failures(run)),
        ("Last warnings", warnings[-_MAX_WARNINGS:]),
    ]
    lines = [f"## {_escape_markdown(title)}", "", *_format_list(facts)]
    for name, rows in sections:
        if items := list(_format_list(rows)):
            lines += ["", f"### {_escape_markdown(name)}", "", *items]
    return "".join(f"{line}\n" for line in lines)


def _format_list(rows: Iterable[TextRow]) -> Iterator[str]:
    for key, value in rows:
        text = " ".join(value.split())
        # Inline code, fenced by more backticks than the text has in a row
        fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
        pad = " " if "`" in {text[:1], text[-1:]} else ""
        code = f"{fence}{pad}{text}{pad}{fence}" if text else "(empty)"
        yield f"- {_escape_markdown(key)}: {code}" if key else f"  - {code}"


def _format_results(results: BuildResults) -> Iterator[TextRow]:
    if results.toolkit or results.python:
        versions = (f"CUDA {results.toolkit}" * bool(results.toolkit), f"Python {results.python}")
        yield "built with", ", ".join(filter(None, versions))
    for part in results.parts:
        facts = (part.version, part.origin, part.archs, part.sha256[:12])
        yield part.name, "; ".join(filter(None, facts))
    for check in results.checks:
        if check.status == "failed":
            yield f"validate: {check.name}", check.detail


def _escape_markdown(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>#|])", r"\\\1", " ".join(text.split()))


_TICK_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400)
_MAX_TICKS, _LAST_TICK = 6, 0.93  # the last label must not cross the right edge
_BLANK_ROW = report_graphics.GraphRow("", 0, (), (), False, ())


def build_page_values(
    run: Run, title: str, results: BuildResults, compared: Comparison | None, *, newest: bool
) -> dict[str, Any]:
    """Return the template values. `newest` is True if no later run changed the build results."""
    edges = run_statistics.list_edges(run)
    outcomes = describe_outcomes(run)
    cache_counts = (
        (one.name, one.cache.get("hits"), one.cache.get("misses")) for one in run.stages
    )
    return {
        "run": run,
        "headline": title,
        "when": run.when[:19].replace("T", " "),
        "failures": [(stage.name, rows) for stage, rows in list_failures(run)],
        "settings": [
            ("Settings", list(list_settings(run)), "only default settings"),
            ("Decisions", list(list_decisions(run)), "not recorded"),
            ("Host", list(describe_host(run)), "not recorded"),
        ],
        "results": results,
        "newest": newest,
        "counts": Counter(check.status for check in results.checks),
        "stages": list(_build_stage_rows(run, outcomes, compared)),
        "ticks": _compute_ticks(run.seconds),
        "built": _summarize_edges(run, edges) if edges else None,
        "drawing": encode_embedded_json(build_timeline(run, edges)) if edges else "",
        "lost": run_statistics.find_slowest(one for one in edges if one.edge.failed),
        "slowest": run_statistics.find_slowest(edges),
        "folders": run_statistics.summarize_folders(edges),
        "caches": [
            (name, hits, misses)
            for name, hits, misses in cache_counts
            if isinstance(hits, int) and isinstance(misses, int) and hits + misses
        ],
        "compared": compared,
        "warnings": list(list_warnings(run)),
        "said": [one for one in run.messages if one.kind != "warn"],
        "elapsed": format_duration,
        "size": format_size,
        "delta": lambda seconds: f"{'−' if seconds < 0 else '+'}{format_duration(abs(seconds))}",
    }


def _build_stage_rows(
    run: Run, outcomes: Mapping[str, str], compared: Comparison | None
) -> Iterator[dict[str, Any]]:
    graph_rows = {row.name: row for row in report_graphics.lay_out_graph(run.graph)}
    comparisons = {one.stage: one for one in compared.stages} if compared else {}
    percent = 100 / run.seconds if run.seconds else 0  # percentage of the run per second
    for name, outcome in outcomes.items():
        stage_run = run.find_stage(name) or StageRun(name, 0.0)
        yield {
            "name": name,
            "outcome": outcome,
            "reason": stage_run.full_reason,
            "seconds": stage_run.seconds if run.find_stage(name) else None,
            "left": percent * stage_run.began,
            "width": percent * stage_run.seconds,
            "moved": comparisons.get(name),
            "rail": graph_rows.get(name, _BLANK_ROW),
        }


def _compute_ticks(seconds: float) -> list[tuple[float, str]]:
    """Return the positions (in percent) and the labels on the time axis of a run."""
    if seconds <= 0:
        return []
    step = next((one for one in _TICK_STEPS if seconds / one <= _MAX_TICKS), seconds / _MAX_TICKS)
    times = [place * step for place in range(int(_LAST_TICK * seconds / step) + 1)]
    return [(100 * at / seconds, _format_tick(at, seconds)) for at in times]


def _format_tick(at: float, seconds: float) -> str:
    if seconds < 60:
        return f"{at:.1f}".removesuffix(".0") + " s"
    minutes, rest = divmod(int(at), 60)
    return f"{minutes}:{rest:02}" if seconds < 3600 else f"{minutes // 60}:{minutes % 60:02} h"


def _summarize_edges(run: Run, built: Sequence[StageEdge]) -> dict[str, Any]:
    edges = [one.edge for one in built]
    first, last = run_statistics.compute_span(edges)
    seconds = sum(edge.seconds for edge in edges)
    samples = report_graphics.list_samples(run)

    def compute_maximum(counts: Iterable[int | None]) -> int | None:
        return max((count for count in counts if count is not None), default=None)

    return {
        "edges": len(edges),
        "failed": sum(edge.failed for edge in edges),
        "seconds": seconds,
        "span": last - first,
        "lanes": max(run_statistics.assign_slots(edges)) + 1,
        "mean": seconds / (last - first) if last > first else 0.0,
        "peak": compute_maximum(edge.peak_mib for edge in edges),
        "used": compute_maximum(one.used_mib for one in samples),
        "limit": compute_maximum(one.limit_mib for one in samples),
        "withheld": compute_maximum(one.held_back for one in samples),
    }
