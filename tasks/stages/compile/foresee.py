"""What compiling would do: the verdict on the build folder, and what Ninja would make. Changes
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from tasks.core.errors import BuildError
from tasks.jobs.ninja import ninjaplan
from tasks.runlog import runs
from tasks.stages.compile.bench import open_bench
from tasks.stages.compile.decision import Decision
from tasks.stages.compile.job import CompileJob
from tasks.stages.env.job import Environment


@dataclass(frozen=True)
class Outlook:
    """The verdict on the build folder; what Ninja would make in it, None where only CMake can
    tell; and how many objects the last whole build made, 0 for none that is known.
    """

    decision: Decision
    ninja: ninjaplan.Foreseen | None
    last: int

    def __str__(self) -> str:
        return f"{self.decision}; {self._work()}"

    def _work(self) -> str:
        if self.decision.do in ("configure", "wipe"):
            known = f" (the last whole build made {self.last:,})" if self.last else ""
            return f"every object is made{known}"
        if self.ninja is None:
            return "how many objects that makes is known when CMake has run"
        more = ", after CMake, which may add to them" if self.ninja.configures else ""
        objects = _counted(self.ninja.objects, "object")
        return f"Ninja would make {objects} in {_counted(self.ninja.steps, 'step')}{more}"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def foresee(job: CompileJob, environment: Environment | None = None) -> Outlook | None:
    """The outlook, in the `environment` that there will be, or in the one that there is; None where
    the stages before have not run yet.
    """
    try:
        bench = open_bench(job, environment)
    except BuildError:
        return None
    decision = bench.decide()
    whole = [run for run in runs.read(job.runs) if run["decision"] in ("configure", "wipe")]
    last = len([one for one in whole[-1]["objects"] if ".o" in one["output"]]) if whole else 0
    target = job.target or "all"
    asked = decision.do == "reuse"
    ninja = ninjaplan.foresee(bench.work.ninja, bench.folder, target) if asked else None
    return Outlook(decision, ninja, last)
