"""`doit settings`: print every resolved setting with its origin (file and line, or variable)."""

import os
import sys
from json import dumps
from typing import Any

from tasks.cli.commands.json_output import write_json_result
from tasks.core.canonical_json import convert_to_json
from tasks.core.errors import TorchyardError
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.settings.loaded_settings import find_setting_value
from tasks.settings.setting_errors import describe_unused_variables
from tasks.system import screen
from tasks.system.output import print_warning


def run(subject: SelectedProfile, json: str = "") -> None:
    """Print the settings. Afterwards, raise the error of a broken profile."""
    rows: dict[str, dict[str, Any]] = {}
    try:  # well-formed settings are shown even if no plan can be made from them
        loaded, problem = subject.read_settings(), subject.problem
        for key, origin in loaded.origin.items():
            rows[key] = {"value": find_setting_value(loaded.settings, key), "from": origin}
    except TorchyardError as error:
        problem = error
    document = {
        "profile": subject.name,
        "problem": str(problem) if problem else None,
        "settings": rows,
        "plan": dict(subject.opened.plan.headline) if subject.opened else None,
    }
    write_json_result(json, document)
    width = max(map(len, rows), default=0)
    # in a pipe, each key has one line
    columns = screen.read_terminal_width(screen.WIDE_COLUMNS, sys.maxsize)
    for key, row in rows.items():
        text = f"{dumps(convert_to_json(row['value']), ensure_ascii=False)}   # {row['from']}"
        screen.print_labeled_text(key, text, min(width + 2, columns // 2), columns)
    for one in describe_unused_variables(os.environ):
        print_warning(one)
    if problem:
        raise TorchyardError(problem.message, location=problem.location, hint=problem.hint)
