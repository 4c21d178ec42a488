"""Cards, driver, and the chosen toolkit's nvcc."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tasks.core.check_ids import CheckId
from tasks.doctor.host_facts import Asked, Tool
from tasks.system.hardware import nvidia, probe, toolchain


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
    return Tool(toolchain.nvcc(str(home)), version) if version else Tool()
