"""`doit settings`: every resolved value with the file and line, or the variable, that it came
from.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from tasks.core.digest import canonical, plain
from tasks.core.errors import BuildError, redact
from tasks.core.formatting import lines
from tasks.lock.profile import Subject
from tasks.settings.load import Loaded
from tasks.settings.told import value_of
from tasks.settings.variables import unread
from tasks.system import tty
from tasks.system.files import deliver
from tasks.system.voice import show, warn


def run(subject: Subject, json: str = "") -> None:
    """Print the table, or the problem that keeps the profile from loading; `json` is a file to
    write to.
    """
    loaded, problem = _load(subject)
    rows = _rows(loaded) if loaded else []
    if json:
        deliver(Path(json), redact(canonical(_document(subject, rows, problem))))
    width = max((len(row["key"]) for row in rows), default=0)
    room = tty.width(tty.WIDE, sys.maxsize)  # a pipe has each key in a line
    for row in rows:
        text = f"{_shown(row['value'])}   # {row['from']}"
        for line in lines.rows(row["key"], text, min(width + 2, room // 2), room):
            show(line)
    for one in unread(os.environ):
        warn(one)
    if problem:
        raise BuildError(problem.what, where=problem.where, todo=problem.todo)


def _load(subject: Subject) -> tuple[Loaded | None, BuildError | None]:
    """Settings that are well-formed are shown even when the plan cannot be made of them."""
    try:
        return subject.asked(), subject.problem
    except BuildError as error:
        return None, error


def _rows(loaded: Loaded) -> list[dict[str, Any]]:
    return [
        {"key": key, "value": value_of(loaded.settings, key), "from": where}
        for key, where in loaded.origin.items()
    ]


def _shown(value: Any) -> str:
    import json  # noqa: PLC0415 - `json` is the name of a parameter here

    return json.dumps(plain(value), ensure_ascii=False)


def _document(
    subject: Subject, rows: list[dict[str, Any]], problem: BuildError | None
) -> dict[str, Any]:
    return {
        "profile": subject.name,
        "problem": str(problem) if problem else None,
        "settings": {row["key"]: {"value": row["value"], "from": row["from"]} for row in rows},
        "plan": dict(subject.opened.plan.headline) if subject.opened else None,
    }
