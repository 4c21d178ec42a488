"""Why a stage runs, in words: what files tell, and what its room knows of a manifest that moved."""

from __future__ import annotations

from pathlib import PurePath

from tasks.effects import records
from tasks.effects.records import Told
from tasks.model import Stage
from tasks.rooms import room


def reason(stage: Stage) -> str:
    """As `records.reason`."""
    return records.reason(stage, _teller(stage))


def reasons(stage: Stage) -> tuple[str, ...]:
    """As `records.reasons`."""
    return records.reasons(stage, _teller(stage))


def _teller(stage: Stage) -> Told:
    def told(path: PurePath) -> tuple[str, ...]:
        lines: tuple[str, ...] = room(stage, "told").told(stage.job) if path in stage.tells else ()
        return lines

    return told
