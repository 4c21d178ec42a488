"""Cards, driver, and the chosen toolkit's nvcc."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tasks.checks.ids import CheckId
from tasks.effects import nvidia, probe
from tasks.surroundings import Asked, Tool


def look(asked: Asked, wanted: frozenset[CheckId]) -> dict[str, Any]:
    """`nvidia` and `nvcc`."""
    found: dict[str, Any] = {}
    if wanted & {"cards", "targets", "driver"}:
        found["nvidia"] = nvidia.look()
    if wanted & {"toolkit", "known-bad", "torch-checks"} and asked.toolkit_home:
        found["nvcc"] = _nvcc(Path(asked.toolkit_home))
    return found


def _nvcc(home: Path) -> Tool:
    version = probe.nvcc_version(home)
    name = "nvcc.exe" if sys.platform == "win32" else "nvcc"
    return Tool(str(home / "bin" / name), version) if version else Tool()
