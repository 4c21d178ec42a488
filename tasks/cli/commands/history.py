"""`doit history`: the runs of a profile, the newest last, a line each: when, what was asked, what
came of it, how long it took, and what was rebuilt and why.

It reads records alone, so it works with a broken profile too.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path, PurePath
from typing import Any

from tasks.core.digest import canonical
from tasks.core.errors import redact
from tasks.core.formatting.bar import Glyphs, columns, fit
from tasks.core.formatting.duration import elapsed
from tasks.lock.profile import Subject
from tasks.runlog import runrecords
from tasks.runlog.record import LOOKED, Run, StageRun
from tasks.system import tty
from tasks.system.files import deliver
from tasks.system.typed import with_profile
from tasks.system.voice import show

_WIDEST = 120
_CELLS = (16, 16, 24, 12)  # columns of all but the last, at most
_GAP = "  "


def run(subject: Subject, json: str = "") -> None:
    """Print a line for each run; `json` is a file to write all of them to."""
    folder = subject.build / "records" / "runs"
    known = [(one, _outcome(one, folder)) for one in runrecords.runs(folder)][::-1]
    if json:
        runs = [_plain(one, outcome) for one, outcome in known]
        deliver(Path(json), redact(canonical({"profile": subject.name, "runs": runs})))
    if not known:
        todo = f"doit build{with_profile(subject.name)}"
        show(f"no run of {subject.name} is on record; to begin: {todo}")
    room = tty.width(_WIDEST)
    glyphs = tty.glyphs()
    for line in _table([_cells(one, outcome) for one, outcome in known], room, glyphs):
        show(line)


def _outcome(one: Run, folder: PurePath) -> str:
    if not one.outcome:
        return "at work" if runrecords.is_at_work(folder, one) else "cut off"
    failed = [stage.name for stage in one.stages if stage.outcome == "failed"]
    if one.outcome == "failed" and failed:
        return f"failed: {', '.join(failed)}"
    return "up to date" if one.outcome == "done" and not one.did else one.outcome


def _cells(one: Run, outcome: str) -> tuple[str, ...]:
    what = "; ".join(_rebuilt(one))
    seconds = _since(one.when) if outcome == "at work" else one.seconds
    return (_local(one.when), " ".join(one.command), outcome, elapsed(seconds), what)


def _rebuilt(one: Run) -> Iterator[str]:
    """`deps, env: first time`: those that ran for the same reason, one after the other."""
    for reason, stages in groupby(one.did, key=lambda stage: stage.why):
        names = ", ".join(stage.name for stage in stages)
        yield f"{names}: {reason}" if reason not in {"", LOOKED} else names


def _local(when: str) -> str:
    begun = _begun(when)
    return f"{begun.astimezone():%Y-%m-%d %H:%M}" if begun else when


def _since(when: str) -> float:
    begun = _begun(when)
    return (datetime.datetime.now(datetime.UTC) - begun).total_seconds() if begun else 0.0


def _begun(when: str) -> datetime.datetime | None:
    try:
        return datetime.datetime.fromisoformat(when).astimezone(datetime.UTC)
    except ValueError:
        return None


def _table(rows: list[tuple[str, ...]], room: int, glyphs: Glyphs) -> Iterator[str]:
    """No column is wider than what is in it; the last has what is left."""
    widths = [
        min(max(map(columns, cells)), most)
        for cells, most in zip(zip(*rows, strict=True), _CELLS, strict=False)
    ]
    for row in rows:
        told = [_padded(cell, width, glyphs) for cell, width in zip(row, widths, strict=False)]
        yield fit(_GAP.join([*told, row[-1]]).rstrip(), room, glyphs)


def _padded(cell: str, width: int, glyphs: Glyphs) -> str:
    cut = fit(cell, width, glyphs)
    return cut + " " * (width - columns(cut))


def _plain(one: Run, outcome: str) -> dict[str, Any]:
    return {
        "when": one.when,
        "command": list(one.command),
        "outcome": outcome,
        "code": one.code,
        "seconds": round(one.seconds, 3),
        "record": f"{one.name}.jsonl",
        "stages": [_told(stage) for stage in one.stages],
    }


def _told(stage: StageRun) -> dict[str, Any]:
    return {
        "stage": stage.name,
        "reason": stage.reason,
        "healed": stage.healed or None,
        "outcome": stage.outcome,
        "seconds": round(stage.seconds, 3),
        **({"workers": dict(stage.workers)} if stage.workers else {}),
        "error": dict(stage.error) or None,
    }
