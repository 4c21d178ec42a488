"""Cards, driver, and the chosen toolkit's nvcc."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tasks.core.check_ids import CheckId
from tasks.doctor.host_facts import ProbeRequest, Tool
from tasks.system.hardware import nvidia, probe, toolchain


def read_gpu_facts(asked: ProbeRequest, wanted: frozenset[CheckId]) -> dict[str, Any]:
    """`nvidia` and `nvcc`."""
    found: dict[str, Any] = {}
    if wanted & {"cards", "targets", "driver"}:
        found["nvidia"] = nvidia.query_driver()
    if wanted & {"toolkit", "known-bad", "torch-checks"} and asked.toolkit_home:
        found["nvcc"] = _find_nvcc(Path(asked.toolkit_home))
    return found


def _find_nvcc(home: Path) -> Tool:
    version = probe.read_nvcc_version(home)
    return Tool(toolchain.build_nvcc_path(str(home)), version) if version else Tool()
