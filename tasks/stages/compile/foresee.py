"""What compiling would do: the verdict on the build folder, and what Ninja would make. Changes
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from tasks.core.errors import TorchyardError
from tasks.jobs.ninja import ninjaplan
from tasks.runlog import runs
from tasks.stages.compile.bench import read_build_context
from tasks.stages.compile.decision import FolderDecision
from tasks.stages.compile.job import CompileJob
from tasks.stages.env.job import Environment


@dataclass(frozen=True)
class BuildPreview:
    """The verdict on the build folder; what Ninja would make in it, None where only CMake can
    tell; and how many objects the last whole build made, 0 for none that is known.
    """

    decision: FolderDecision
    ninja: ninjaplan.NinjaDryRun | None
    last_object_count: int

    def __str__(self) -> str:
        return f"{self.decision}; {self._describe_work()}"

    def _describe_work(self) -> str:
        if self.decision.action in ("configure", "wipe"):
            known = (
                f" (the last whole build made {self.last_object_count:,})"
                if self.last_object_count
                else ""
            )
            return f"every object is made{known}"
        if self.ninja is None:
            return "how many objects that makes is known when CMake has run"
        more = ", after CMake, which may add to them" if self.ninja.configures else ""
        objects = _format_count(self.ninja.objects, "object")
        return f"Ninja would make {objects} in {_format_count(self.ninja.steps, 'step')}{more}"


def _format_count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def preview_build(job: CompileJob, environment: Environment | None = None) -> BuildPreview | None:
    """The outlook, in the `environment` that there will be, or in the one that there is; None where
    the stages before have not run yet.
    """
    try:
        bench = read_build_context(job, environment)
    except TorchyardError:
        return None
    decision = bench.choose_action()
    whole = [run for run in runs.read_history(job.runs) if run["decision"] in ("configure", "wipe")]
    last = len([one for one in whole[-1]["objects"] if ".o" in one["output"]]) if whole else 0
    target = job.target or "all"
    asked = decision.action == "reuse"
    ninja = ninjaplan.preview_ninja_build(bench.work.ninja, bench.folder, target) if asked else None
    return BuildPreview(decision, ninja, last)
