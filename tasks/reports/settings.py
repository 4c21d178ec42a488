"""`doit settings`: every resolved value with the file and line, or the variable, that it came
from.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tasks.digest import canonical, plain
from tasks.effects.files import deliver
from tasks.effects.voice import show
from tasks.errors import BuildError, names_a_secret, redact
from tasks.reports.subject import Subject
from tasks.settings.load import Loaded


def run(subject: Subject, json: str = "") -> None:
    """Print the table, or the problem that keeps the profile from loading; `json` is a file to
    write to.
    """
    loaded, problem = _load(subject)
    rows = _rows(loaded) if loaded else []
    if json:
        deliver(Path(json), redact(canonical(_document(subject, rows, problem))))
    width = max((len(row["key"]) for row in rows), default=0)
    for row in rows:
        show(f"{row['key']:<{width}}  {_shown(row['value'])}   # {row['from']}")
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
        {"key": key, "value": _value(key, _at(loaded.settings, key)), "from": where}
        for key, where in loaded.origin.items()
    ]


def _at(settings: Any, key: str) -> Any:
    """The value of a dotted key; the keys of a mapping (mirrors) can hold dots themselves."""
    value = settings
    while key:
        if isinstance(value, dict):
            return value[key]
        part, _, key = key.partition(".")
        value = getattr(value, part)
    return value


def _value(key: str, value: Any) -> Any:
    if names_a_secret(key.rpartition(".")[2]):
        return "***"
    if hasattr(value, "model_dump"):
        value = value.model_dump(exclude_defaults=True)
    if isinstance(value, tuple):
        return [_value(key, item) for item in value]
    if isinstance(value, dict):
        return {name: _value(name, item) for name, item in value.items()}
    return redact(value) if isinstance(value, str) else value


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
