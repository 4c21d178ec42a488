"""report.md: what a maintainer needs to know of a run, short enough for a bug report. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tasks.core.formatting.duration import elapsed
from tasks.runlog.record import Run
from tasks.runlog.report import words
from tasks.runlog.report.cameout import CameOut

_WARNINGS = 5


def markdown(run: Run, title: str, came: CameOut) -> str:
    """The text: versions, host, decisions, stages, failures and the last warnings."""
    return "\n".join(_lines(run, title, came)) + "\n"


def _lines(run: Run, title: str, came: CameOut) -> Iterator[str]:
    yield f"## {_plain(title)}"
    yield ""
    yield from _list([("torchyard", run.torchyard), ("command", " ".join(("doit", *run.command)))])
    yield from _list([("profile", run.profile), ("when", run.when)])
    yield from _section("Host", words.host(run))
    yield from _section("Asked", words.asked(run))
    yield from _section("Decided", words.decided(run))
    yield from _section("Came out", _came(came))
    ran = words.outcomes(run).items()
    yield from _section("Stages", [(name, _stage(run, name, outcome)) for name, outcome in ran])
    for stage, told in words.failures(run):
        yield from _section(f"{stage.name} failed", told)
    last = list(words.warnings(run))[-_WARNINGS:]
    yield from _section("Last warnings", ((stage or "torchyard", text) for stage, text in last))


def _section(title: str, rows: Iterable[words.Row]) -> Iterator[str]:
    lines = list(_list(rows))
    if lines:
        yield from ("", f"### {_plain(title)}", "", *lines)


def _list(rows: Iterable[words.Row]) -> Iterator[str]:
    for key, value in rows:
        yield f"- {_plain(key)}: {_code(value)}" if key else f"  - {_code(value)}"


def _stage(run: Run, name: str, outcome: str) -> str:
    did = run.stage(name)
    return f"{outcome} in {elapsed(did.seconds)}: {did.why}" if did else outcome


def _came(came: CameOut) -> Iterator[words.Row]:
    if came.toolkit or came.python:
        known = (f"CUDA {came.toolkit}" * bool(came.toolkit), f"Python {came.python}")
        yield "with", ", ".join(filter(None, known))
    for part in came.parts:
        facts = (part.version, part.made_of, part.archs, part.sha256[:12])
        yield part.name, "; ".join(filter(None, facts))
    for check in came.checks:
        if check.status == "failed":
            yield f"validate: {check.name}", check.detail


def _code(text: str) -> str:
    """Inline code, which shows every sign as it is; a fence that is longer than any in it."""
    text = " ".join(text.split())
    if not text:
        return "(empty)"
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    pad = " " if text[0] == "`" or text[-1] == "`" else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _plain(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>#|])", r"\\\1", " ".join(text.split()))
