"""`doit history`: print one line per run, the newest last.

A line has the time, the command, the outcome, the duration, and the rebuilt stages with reasons.
Only records are read, so the command works with a broken profile too.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path, PurePath
from typing import Any

from tasks.core.canonical_json import format_canonical_json
from tasks.core.errors import redact_secrets
from tasks.core.text_formatting import format_duration
from tasks.core.text_layout import Glyphs, fit_columns, measure_columns
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.runlog import run_record_io
from tasks.runlog.run_record import ALWAYS_CHECKED, Run, StageRun
from tasks.system import screen
from tasks.system.files import write_user_file
from tasks.system.output import print_report
from tasks.system.profile_hint import format_profile_argument

_MAX_HISTORY_WIDTH = 120
_COLUMN_WIDTHS = (16, 16, 24, 12)  # maximum widths of all columns but the last
_HISTORY_GAP = "  "


def run(subject: SelectedProfile, json: str = "") -> None:
    """Print a line per run; `json` is the path of a file for all runs."""
    folder = subject.build / "records" / "runs"
    rows = [(one, _format_outcome(one, folder)) for one in run_record_io.read_runs(folder)][::-1]
    if json:
        runs = [_serialize_run(one, outcome) for one, outcome in rows]
        write_user_file(
            Path(json),
            redact_secrets(format_canonical_json({"profile": subject.name, "runs": runs})),
        )
    if not rows:
        command = f"doit build{format_profile_argument(subject.name)}"
        print_report(f"no run of {subject.name} is on record; to begin: {command}")
    width = screen.read_terminal_width(_MAX_HISTORY_WIDTH)
    glyphs = screen.choose_glyphs()
    for line in _format_history_table(
        [_build_history_row(one, outcome) for one, outcome in rows], width, glyphs
    ):
        print_report(line)


def _format_outcome(one: Run, folder: PurePath) -> str:
    if not one.outcome:
        return "at work" if run_record_io.is_run_active(folder, one) else "cut off"
    failed = [stage.name for stage in one.stages if stage.outcome == "failed"]
    if one.outcome == "failed" and failed:
        return f"failed: {', '.join(failed)}"
    return "up to date" if one.outcome == "done" and not one.active_stages else one.outcome


def _build_history_row(one: Run, outcome: str) -> tuple[str, ...]:
    rebuilt = "; ".join(_list_rebuilt_stages(one))
    seconds = _compute_elapsed_seconds(one.when) if outcome == "at work" else one.seconds
    return (
        _format_local_time(one.when),
        " ".join(one.command),
        outcome,
        format_duration(seconds),
        rebuilt,
    )


def _list_rebuilt_stages(one: Run) -> Iterator[str]:
    """Yield `deps, env: first time`: consecutive stages with the same reason."""
    for reason, stages in groupby(one.active_stages, key=lambda stage: stage.full_reason):
        names = ", ".join(stage.name for stage in stages)
        yield f"{names}: {reason}" if reason not in {"", ALWAYS_CHECKED} else names


def _format_local_time(when: str) -> str:
    start = _parse_start_time(when)
    return f"{start.astimezone():%Y-%m-%d %H:%M}" if start else when


def _compute_elapsed_seconds(when: str) -> float:
    start = _parse_start_time(when)
    return (datetime.datetime.now(datetime.UTC) - start).total_seconds() if start else 0.0


def _parse_start_time(when: str) -> datetime.datetime | None:
    try:
        return datetime.datetime.fromisoformat(when).astimezone(datetime.UTC)
    except ValueError:
        return None


def _format_history_table(rows: list[tuple[str, ...]], room: int, glyphs: Glyphs) -> Iterator[str]:
    """Yield the rows. A column is as wide as its content; the last one takes the rest."""
    widths = [
        min(max(map(measure_columns, cells)), limit)
        for cells, limit in zip(zip(*rows, strict=True), _COLUMN_WIDTHS, strict=False)
    ]
    for row in rows:
        padded = [_pad_text(cell, width, glyphs) for cell, width in zip(row, widths, strict=False)]
        yield fit_columns(_HISTORY_GAP.join([*padded, row[-1]]).rstrip(), room, glyphs)


def _pad_text(cell: str, width: int, glyphs: Glyphs) -> str:
    fitted = fit_columns(cell, width, glyphs)
    return fitted + " " * (width - measure_columns(fitted))


def _serialize_run(one: Run, outcome: str) -> dict[str, Any]:
    return {
        "when": one.when,
        "command": list(one.command),
        "outcome": outcome,
        "code": one.code,
        "seconds": round(one.seconds, 3),
        "record": f"{one.name}.jsonl",
        "stages": [_serialize_stage_run(stage) for stage in one.stages],
    }


def _serialize_stage_run(stage: StageRun) -> dict[str, Any]:
    return {
        "stage": stage.name,
        "reason": stage.reason,
        "auto_fix": stage.auto_fix or None,
        "outcome": stage.outcome,
        "seconds": round(stage.seconds, 3),
        **({"workers": dict(stage.workers)} if stage.workers else {}),
        "error": dict(stage.error) or None,
    }
