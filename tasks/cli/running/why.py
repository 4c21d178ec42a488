"""Why a stage runs, in words: what files tell, and what its room knows of a manifest that moved."""

from __future__ import annotations

from pathlib import PurePath

from tasks.cli.running.rooms import room
from tasks.core.errors import BuildError
from tasks.core.formatting.few import shortened
from tasks.core.model import Stage
from tasks.runlog import records
from tasks.runlog.records import Told


def reason(stage: Stage) -> str:
    """As `records.reason`, and what torchyard.lock holds otherwise; of a stage that asks whether
    its source moved the answer is known.
    """
    if found := reasons(stage) or unlocked(stage):
        return shortened(found)
    if stage.asks == "moved" and not room(stage, "moved").moved(stage.job):
        return records.UNFINISHED
    return records.ASKED[stage.asks]


def unlocked(stage: Stage) -> tuple[str, ...]:
    """What torchyard.lock holds for a stage and is not there; nothing of one without a result."""
    if stage.asks != "moved" or not hasattr(moved := room(stage, "moved"), "unlocked"):
        return ()
    try:
        found: tuple[str, ...] = moved.unlocked(stage.job)
    except BuildError:
        return ()
    return found


def reasons(stage: Stage) -> tuple[str, ...]:
    """As `records.reasons`."""
    return records.reasons(stage, _teller(stage))


def _teller(stage: Stage) -> Told:
    def told(path: PurePath) -> tuple[str, ...]:
        lines: tuple[str, ...] = room(stage, "told").told(stage.job) if path in stage.tells else ()
        return lines

    return told
