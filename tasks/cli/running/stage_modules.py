"""The modules of a stage's room, found by name and imported when they are needed."""

from __future__ import annotations

import importlib
from typing import Any

from tasks.core.model import Stage


def load_stage_module(stage: Stage, module: str) -> Any:
    """A module of the stage's room: `action`, the small `moved` that each run asks, `told`."""
    return importlib.import_module(f"tasks.stages.{stage.kind}.{module}")
