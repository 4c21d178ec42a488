"""Import the modules of a stage kind by name, when they are needed."""

from __future__ import annotations

import importlib
from typing import Any

from tasks.core.model import Stage


def load_stage_module(stage: Stage, module: str) -> Any:
    """Return a module of the stage's package: `run`, `up_to_date` or `explain_changes`."""
    return importlib.import_module(f"tasks.stages.{stage.kind}.{module}")
