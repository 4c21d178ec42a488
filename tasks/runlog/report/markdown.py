"""report.md: what a maintainer needs to know of a run, short enough for a bug report. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tasks.core.formatting.duration import format_duration
from tasks.runlog.record import Run
from tasks.runlog.report import words
from tasks.runlog.report.cameout import BuildResults

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
    yield from _format_section("Host", words.describe_host(run))
    yield from _format_section("Asked", words.list_settings(run))
    yield from _format_section("Decided", words.list_decisions(run))
    yield from _format_section("Came out", _format_results(came))
    ran = words.describe_outcomes(run).items()
    yield from _format_section(
        "Stages", [(name, _format_stage(run, name, outcome)) for name, outcome in ran]
    )
    for stage, told in words.list_failures(run):
        yield from _format_section(f"{stage.name} failed", told)
    last = list(words.list_warnings(run))[-_MAX_WARNINGS:]
    yield from _format_section(
        "Last warnings", ((stage or "torchyard", text) for stage, text in last)
    )


def _format_section(title: str, rows: Iterable[words.TextRow]) -> Iterator[str]:
    lines = list(_format_list(rows))
    if lines:
        yield from ("", f"### {_escape_markdown(title)}", "", *lines)


def _format_list(rows: Iterable[words.TextRow]) -> Iterator[str]:
    for key, value in rows:
        yield (
            f"- {_escape_markdown(key)}: {_format_inline_code(value)}"
            if key
            else f"  - {_format_inline_code(value)}"
        )


def _format_stage(run: Run, name: str, outcome: str) -> str:
    did = run.find_stage(name)
    return f"{outcome} in {format_duration(did.seconds)}: {did.full_reason}" if did else outcome


def _format_results(came: BuildResults) -> Iterator[words.TextRow]:
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
