"""`doit history`: print one line per run, the newest last, even if the profile has errors."""

import datetime
from contextlib import suppress
from itertools import groupby
from pathlib import PurePath
from typing import Any

from tasks.cli.commands.json_output import write_json_result
from tasks.core.text_formatting import format_duration
from tasks.core.text_layout import fit_columns, measure_columns
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.runlog import run_record_io
from tasks.runlog.run_record import ALWAYS_CHECKED, Run
from tasks.system import screen
from tasks.system.invocation import format_profile_argument
from tasks.system.output import print_report

_MAX_HISTORY_WIDTH = 120
_COLUMN_WIDTHS = (16, 16, 24, 12)  # maximum widths of all columns but the last
_HISTORY_GAP = "  "


def run(subject: SelectedProfile, json: str = "") -> None:
    """Print one line per run. If the path `json` is not empty, also write all runs there."""
    folder = subject.build / "records" / "runs"
    rows = [(one, _format_outcome(one, folder)) for one in run_record_io.read_runs(folder)][::-1]
    runs = [_serialize_run(one, outcome) for one, outcome in rows]
    write_json_result(json, {"profile": subject.name, "runs": runs})
    if not rows:
        command = f"doit build{format_profile_argument(subject.name)}"
        print_report(f"no run of profile {subject.name} is recorded; start one: {command}")
    columns, glyphs = screen.read_terminal_width(_MAX_HISTORY_WIDTH), screen.choose_glyphs()
    table = [_build_history_row(one, outcome) for one, outcome in rows]
    widths = [
        min(max(map(measure_columns, column)), limit)
        for column, limit in zip(zip(*table, strict=True), _COLUMN_WIDTHS, strict=False)
    ]
    for row in table:
        line = ""
        for text, width in zip(row, widths, strict=False):
            fitted = fit_columns(text, width, glyphs)
            line += fitted + " " * (width - measure_columns(fitted)) + _HISTORY_GAP
        print_report(fit_columns(f"{line}{row[-1]}".rstrip(), columns, glyphs))


def _format_outcome(one: Run, folder: PurePath) -> str:
    if not one.outcome:
        return "running" if run_record_io.is_run_active(folder, one) else "unfinished"
    failed = [stage.name for stage in one.stages if stage.outcome == "failed"]
    if one.outcome == "failed" and failed:
        return f"failed: {', '.join(failed)}"
    return "up to date" if one.outcome == "done" and not one.active_stages else one.outcome


def _build_history_row(one: Run, outcome: str) -> tuple[str, ...]:
    when, seconds = one.when, 0.0 if outcome == "running" else one.seconds
    with suppress(ValueError):
        start = datetime.datetime.fromisoformat(when).astimezone(datetime.UTC)
        when = f"{start.astimezone():%Y-%m-%d %H:%M}"
        if outcome == "running":
            seconds = (datetime.datetime.now(datetime.UTC) - start).total_seconds()
    rebuilt = []  # such as "deps, env: first time": consecutive stages with the same reason
    for reason, stages in groupby(one.active_stages, key=lambda stage: stage.full_reason):
        names = ", ".join(stage.name for stage in stages)
        rebuilt.append(f"{names}: {reason}" if reason not in {"", ALWAYS_CHECKED} else names)
    return when, " ".join(one.command), outcome, format_duration(seconds), "; ".join(rebuilt)


def _serialize_run(one: Run, outcome: str) -> dict[str, Any]:
    return {
        "when": one.when,
        "command": list(one.command),
        "outcome": outcome,
        "code": one.code,
        "seconds": round(one.seconds, 3),
        "record": f"{one.name}.jsonl",
        "stages": [
            {
                "stage": stage.name,
                "reason": stage.reason,
                "auto_fix": stage.auto_fix or None,
                "outcome": stage.outcome,
                "seconds": round(stage.seconds, 3),
                **({"workers": dict(stage.workers)} if stage.workers else {}),
                "error": dict(stage.error) or None,
            }
            for stage in one.stages
        ],
    }
