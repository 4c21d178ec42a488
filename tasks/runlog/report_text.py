"""A run in the words that page and bug report share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tasks.core.text_formatting import format_duration, format_size
from tasks.runlog.build_results import BuildResults
from tasks.runlog.report_graphics import find_predecessors
from tasks.runlog.run_record import Run, StageRun

TextRow = tuple[str, str]
_FAILED_OUTCOMES = {"failed", "stopped", "", "not reached"}
_HOST_LABELS = {"system": "system", "machine": "machine", "cores": "cores", "python": "Python"}


def describe_outcomes(run: Run) -> Mapping[str, str]:
    """What became of each stage: that of its record; "cut off"; for one that did nothing, "up to
    date", or "not reached" where it comes after one that ended badly.
    """
    found: dict[str, str] = {}
    far = find_predecessors(run.graph)
    for node in run.graph:
        did = run.find_stage(node.name)
        if did:
            found[node.name] = did.outcome
        else:
            lost = run.outcome != "done" and any(
                found[name] in _FAILED_OUTCOMES for name in far[node.name]
            )
            found[node.name] = "not reached" if lost else "up to date"
    found |= {one.name: one.outcome for one in run.stages if one.name not in found}
    return {name: outcome or "cut off" for name, outcome in found.items()}


def format_headline(run: Run, at_work: bool = False) -> str:
    """`Built in 6 min 20 s`, `compile failed after 6 min 20 s`. `at_work`: its process is."""
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
    """The plan's decisions, the strategy with its reasons."""
    for key, value in run.resolution.items():
        told = (
            "; ".join(map(format_value, value)) if isinstance(value, list) else format_value(value)
        )
        yield key, told or "CPU" * (key == "targets")


def list_settings(run: Run) -> Iterator[TextRow]:
    """The settings that a person made; `build.flags.USE_X` and its like are one row of names."""
    rows: dict[str, list[str]] = {}
    for key, value in run.settings.items():
        section, _, name = key.partition(".")
        mapping, _, entry = name.partition(".")
        told = format_value(value)
        row = f"{section}.{mapping}" if entry else key
        rows.setdefault(row, []).append(f"{entry}: {told}" if entry else told)
    for row, told_of in rows.items():
        yield row, ", ".join(told_of)


def describe_host(run: Run) -> Iterator[TextRow]:
    """The machine, without its name."""
    for key, label in _HOST_LABELS.items():
        if run.host.get(key) is not None:
            yield label, format_value(run.host[key])
    memory = run.host.get("memory_mib")
    if isinstance(memory, int | float):
        yield "memory", format_size(memory)
    cards = run.host.get("gpus")
    if isinstance(cards, list | tuple):
        named = [_format_gpu(card) for card in cards]
        yield "cards", ", ".join(named) or "none seen"


def _format_gpu(card: Any) -> str:
    if not isinstance(card, Mapping):
        return str(card)
    return f"{card.get('name', 'unnamed')} ({card.get('capability', 'unknown')})"


def list_failures(run: Run) -> Iterator[tuple[StageRun, tuple[TextRow, ...]]]:
    """Each stage that failed, with what is known of it, in the order in which it is read."""
    for stage in run.stages:
        if stage.outcome == "failed" or stage.error:
            yield stage, tuple(_describe_failure(stage))


def _describe_failure(stage: StageRun) -> Iterator[TextRow]:
    error, known = stage.error, stage.diagnosis
    first = known.get("first_error")
    rows = [
        ("what happened", error.get("what")),
        ("where", error.get("where")),
        ("first error", first.get("text") if isinstance(first, Mapping) else None),
        ("", _format_location(first) if isinstance(first, Mapping) else None),
        ("cause", _format_cause(known)),
        ("to do", known.get("remedy")),
        (
            "" if known.get("remedy") else "to do",
            _drop_duplicate_hint(error.get("todo"), known.get("remedy")),
        ),
        ("evidence", known.get("evidence")),
        ("whole log", known.get("log")),
    ]
    yield from ((key, format_value(value)) for key, value in rows if value)


def _drop_duplicate_hint(todo: Any, remedy: Any) -> Any:
    return None if todo == remedy else todo


def _format_location(first: Mapping[str, Any]) -> str:
    return f"{first.get('file', 'the log')}, line {first.get('line', 'unknown')}"


def _format_cause(known: Mapping[str, Any]) -> str:
    slug, told = known.get("cause"), known.get("explanation")
    if slug:
        return f"{told} ({slug})" if told else str(slug)
    candidates = known.get("candidates")
    if isinstance(candidates, list | tuple) and candidates:
        return f"not sure; it could be {' or '.join(map(str, candidates))}"
    return "not known" if known else ""


def list_warnings(run: Run) -> Iterator[TextRow]:
    """Each warning once, with the stage that gave it."""
    yield from dict.fromkeys(
        (said.stage, said.text) for said in run.messages if said.kind == "warn"
    )


def format_value(value: Any) -> str:
    """A value of a setting or a decision as a line."""
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
    """The text: versions, host, decisions, stages, failures and the last warnings."""
    return "\n".join(_format_markdown_lines(run, title, came)) + "\n"


def _format_markdown_lines(run: Run, title: str, came: BuildResults) -> Iterator[str]:
    yield f"## {_escape_markdown(title)}"
    yield ""
    yield from _format_list(
        [("torchyard", run.torchyard), ("command", " ".join(("doit", *run.command)))]
    )
    yield from _format_list([("profile", run.profile), ("when", run.when)])
    yield from _format_section("Host", describe_host(run))
    yield from _format_section("Asked", list_settings(run))
    yield from _format_section("Decided", list_decisions(run))
    yield from _format_section("Came out", _format_results(came))
    ran = describe_outcomes(run).items()
    yield from _format_section(
        "Stages", [(name, _format_stage(run, name, outcome)) for name, outcome in ran]
    )
    for stage, told in list_failures(run):
        yield from _format_section(f"{stage.name} failed", told)
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
    did = run.find_stage(name)
    return f"{outcome} in {format_duration(did.seconds)}: {did.full_reason}" if did else outcome


def _format_results(came: BuildResults) -> Iterator[TextRow]:
    if came.toolkit or came.python:
        known = (f"CUDA {came.toolkit}" * bool(came.toolkit), f"Python {came.python}")
        yield "with", ", ".join(filter(None, known))
    for part in came.parts:
        facts = (part.version, part.made_of, part.archs, part.sha256[:12])
        yield part.name, "; ".join(filter(None, facts))
    for check in came.checks:
        if check.status == "failed":
            yield f"validate: {check.name}", check.detail


def _format_inline_code(text: str) -> str:
    """Inline code, which shows every sign as it is; a fence that is longer than any in it."""
    text = " ".join(text.split())
    if not text:
        return "(empty)"
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    pad = " " if text[0] == "`" or text[-1] == "`" else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _escape_markdown(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>#|])", r"\\\1", " ".join(text.split()))
