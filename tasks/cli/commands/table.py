"""Symptoms as lines for a terminal, what was seen and what to do below each other. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tasks.core.formatting.lines import rows, wrapped
from tasks.doctor.symptom import Symptom

_MARKS = {"problem": "PROBLEM"}  # what must not be missed
_INDENT = 28  # of what was seen


def table(found: Iterable[Symptom], columns: int) -> Iterator[str]:
    """A line for each symptom, what is longer than `columns` going on below. Commands are left in
    one piece, to be copied.
    """
    room = max(columns - _INDENT, 30)
    before = ""
    for symptom in found:
        name = symptom.id if symptom.id != before or symptom.level != "ok" else ""
        before = symptom.id
        known = f" [{symptom.known}]" if symptom.known else ""
        key = f"{_MARKS.get(symptom.level, symptom.level):<12} {name:<14}"
        yield from rows(key, f"{symptom.seen}{known}", _INDENT, room + _INDENT)
        yield from _remedy(symptom.todo, room - 2)


def _remedy(todo: str, room: int) -> Iterator[str]:
    mark = "→ "
    for line in todo.splitlines():
        pieces = [line.strip()] if line.startswith("  ") else wrapped(line, room)
        for piece in pieces:
            yield f"{'':{_INDENT}}{mark}{piece}"
            mark = "  "
