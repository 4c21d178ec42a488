"""A run in the words that page and bug report share. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tasks.core.formatting.duration import format_duration
from tasks.core.formatting.size import format_size
from tasks.runlog.record import Run, StageRun
from tasks.runlog.report.rails import find_predecessors

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
            return f"{'Built' if run.active_stages else 'Up to date'} in {format_duration(run.seconds)}"
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
