"""`doit settings`: print every resolved value with its origin (file and line, or variable)."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from tasks.core.canonical_json import convert_to_json, format_canonical_json
from tasks.core.errors import TorchyardError, redact_secrets
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.settings.loaded_settings import LoadedSettings, find_setting_value
from tasks.settings.setting_errors import describe_unused_variables
from tasks.system import screen
from tasks.system.files import write_user_file
from tasks.system.output import print_warning


def run(subject: SelectedProfile, json: str = "") -> None:
    """Print the table, or the problem that prevents loading. `json` is the path of an output file.

    Raises the problem of a broken profile as a `TorchyardError`.
    """
    loaded, problem = _load_settings(subject)
    rows = _build_setting_rows(loaded) if loaded else []
    if json:
        write_user_file(
            Path(json),
            redact_secrets(format_canonical_json(_build_settings_document(subject, rows, problem))),
        )
    width = max((len(row["key"]) for row in rows), default=0)
    columns = screen.read_terminal_width(
        screen.WIDE_COLUMNS, sys.maxsize
    )  # no wrapping in a pipe: one key per line
    for row in rows:
        text = f"{_format_value(row['value'])}   # {row['from']}"
        screen.print_labeled_text(row["key"], text, min(width + 2, columns // 2), columns)
    for one in describe_unused_variables(os.environ):
        print_warning(one)
    if problem:
        raise TorchyardError(problem.message, location=problem.location, hint=problem.hint)


def _load_settings(subject: SelectedProfile) -> tuple[LoadedSettings | None, TorchyardError | None]:
    """Return the settings and the problem of the profile.

    Well-formed settings are returned even if no plan can be made from them.
    """
    try:
        return subject.read_settings(), subject.problem
    except TorchyardError as error:
        return None, error


def _build_setting_rows(loaded: LoadedSettings) -> list[dict[str, Any]]:
    return [
        {"key": key, "value": find_setting_value(loaded.settings, key), "from": origin}
        for key, origin in loaded.origin.items()
    ]


def _format_value(value: Any) -> str:
    import json  # noqa: PLC0415 - `json` is the name of a parameter here

    return json.dumps(convert_to_json(value), ensure_ascii=False)


def _build_settings_document(
    subject: SelectedProfile, rows: list[dict[str, Any]], problem: TorchyardError | None
) -> dict[str, Any]:
    return {
        "profile": subject.name,
        "problem": str(problem) if problem else None,
        "settings": {row["key"]: {"value": row["value"], "from": row["from"]} for row in rows},
        "plan": dict(subject.opened.plan.headline) if subject.opened else None,
    }
