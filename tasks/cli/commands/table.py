"""Symptoms as lines for a terminal, what was seen and what to do below each other. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tasks.core.formatting.lines import format_labeled_lines, wrap_text
from tasks.doctor.symptom import CheckResult

_LEVEL_MARKS = {"problem": "PROBLEM"}  # what must not be missed
_FINDING_INDENT = 28  # of what was seen


def format_check_table(found: Iterable[CheckResult], columns: int) -> Iterator[str]:
    """A line for each symptom, what is longer than `columns` going on below. Commands are left in
    one piece, to be copied.
    """
    room = max(columns - _FINDING_INDENT, 30)
    before = ""
    for symptom in found:
        name = symptom.id if symptom.id != before or symptom.level != "ok" else ""
        before = symptom.id
        known = f" [{symptom.known}]" if symptom.known else ""
        key = f"{_LEVEL_MARKS.get(symptom.level, symptom.level):<12} {name:<14}"
        yield from format_labeled_lines(
            key, f"{symptom.seen}{known}", _FINDING_INDENT, room + _FINDING_INDENT
        )
        yield from _format_hint(symptom.todo, room - 2)


def _format_hint(todo: str, room: int) -> Iterator[str]:
    mark = "→ "
    for line in todo.splitlines():
        pieces = [line.strip()] if line.startswith("  ") else wrap_text(line, room)
        for piece in pieces:
            yield f"{'':{_FINDING_INDENT}}{mark}{piece}"
            mark = "  "
