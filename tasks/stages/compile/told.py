"""What a run of compile tells of itself, for `tasks.runlog.runs`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tasks.core.model import Json
from tasks.jobs.edgetimes import EdgeTimes
from tasks.stages.compile.decision import FolderDecision


@dataclass
class CompileStatistics:
    """A run as it goes: what was decided, MiB at the most by output, when outputs were made, jobs
    at once, what the compiler cache served, the outputs whose compilers ran out of memory, whether
    a make that knows no pool is part of it, lines with a warning, and the seconds that CMake took,
    and Ninja.
    """

    decision: FolderDecision
    peaks: Mapping[str, int] = field(default_factory=dict)
    edge_times: EdgeTimes = field(default_factory=EdgeTimes)
    jobs: int = 0
    cache: Mapping[str, Json] = field(default_factory=dict)
    killed: tuple[str, ...] = ()
    old_make: bool = False
    warnings: int = 0
    configure_seconds: float = 0.0
    ninja_seconds: float = 0.0

    def build_run_facts(self) -> dict[str, Json]:
        """For its line."""
        return {
            "configure_seconds": round(self.configure_seconds, 3),
            "ninja_seconds": round(self.ninja_seconds, 3),
            "decision": self.decision.action,
            "changes": [str(change) for change in self.decision.changes],
            "jobs": self.jobs,
            "cache": dict(self.cache),
            "warnings": self.warnings,
            "killed": list(self.killed),
            "old_make": self.old_make,
        }
