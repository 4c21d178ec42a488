"""`doit settings`: print every resolved setting with its origin (file and line, or variable)."""

import os
import sys
from json import dumps
from pathlib import Path
from typing import Any

from tasks.core.canonical_json import convert_to_json, format_canonical_json
from tasks.core.errors import TorchyardError, redact_secrets
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.settings.loaded_settings import find_setting_value
from tasks.settings.setting_errors import describe_unused_variables
from tasks.system import screen
from tasks.system.files import write_user_file
from tasks.system.output import print_warning


def run(subject: SelectedProfile, json: str = "") -> None:
    """Print the table of settings. `json` is the path of an output file, "" for none.

    Raises `TorchyardError` if the profile is broken, after printing the settings that can be read.
    """
    rows: list[dict[str, Any]] = []
    try:  # well-formed settings are shown even if no plan can be made from them
        loaded, problem = subject.read_settings(), subject.problem
        for key, origin in loaded.origin.items():
            value = find_setting_value(loaded.settings, key)
            rows.append({"key": key, "value": value, "from": origin})
    except TorchyardError as error:
        problem = error
    if json:
        document = {
            "profile": subject.name,
            "problem": str(problem) if problem else None,
            "settings": {row["key"]: {"value": row["value"], "from": row["from"]} for row in rows},
            "plan": dict(subject.opened.plan.headline) if subject.opened else None,
        }
        write_user_file(Path(json), redact_secrets(format_canonical_json(document)))
    width = max((len(row["key"]) for row in rows), default=0)
    columns = screen.read_terminal_width(
        screen.WIDE_COLUMNS, sys.maxsize
    )  # in a pipe: one line per key
    for row in rows:
        value = dumps(convert_to_json(row["value"]), ensure_ascii=False)
        text = f"{value}   # {row['from']}"
        screen.print_labeled_text(row["key"], text, min(width + 2, columns // 2), columns)
    for one in describe_unused_variables(os.environ):
        print_warning(one)
    if problem:
        raise TorchyardError(problem.message, location=problem.location, hint=problem.hint)
