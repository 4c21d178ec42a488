"""Whether what stands there can be looked at, and whether it is still what the settings ask for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from tasks.core.errors import BuildError
from tasks.core.formatting.few import shortened
from tasks.core.model import Check
from tasks.runlog import records, runrecords
from tasks.stages.extensions.job import Built
from tasks.stages.validate.checks import made_for
from tasks.stages.validate.job import ValidateJob
from tasks.stages.wheel.job import Surface, Wheel
from tasks.system import manifests


def torch_of(job: ValidateJob) -> Wheel:
    """The torch of this profile; a `BuildError` that says what to run where there is none."""
    if not Path(job.wheel).is_file():
        raise BuildError(
            f"there is no torch of profile {job.profile} yet",
            where=str(job.wheel),
            todo=job.again,
        )
    return manifests.read(job.wheel, Wheel)


def extensions_of(job: ValidateJob) -> tuple[dict[str, Built], dict[str, str]]:
    """Those that are built, and why each other one is not there, by name."""
    built, missing = {}, {}
    for name, path in job.extensions.items():
        if not Path(path).is_file():
            missing[name] = f"it is not built yet: there is no {path}"
            continue
        try:
            built[name] = manifests.read(path, Built)
        except BuildError as error:
            missing[name] = f"{error.where}: {error.what}"
    return built, missing


def missing_checks(job: ValidateJob, missing: Mapping[str, str]) -> Iterator[Check]:
    """What is asked of an extension that is not there: the first check has failed, the others were
    not run.
    """
    kinds = [("extensions", "import"), ("machine_code", "machine code")]
    for name, why in missing.items():
        told, remedy = _last_failure(job, name) or (why, job.again)
        smoke = [("extensions", "smoke check")] if name in job.smokes else []
        asked = [what for kind, what in [*kinds, *smoke] if kind in job.checks]
        for place, what in enumerate(asked):
            yield (
                Check(f"{name}: {what}", "not run", "it is not built")
                if place
                else Check(f"{name}: {what}", "failed", told, remedy)
            )


def _last_failure(job: ValidateJob, name: str) -> tuple[str, str] | None:
    """Return the error of the last build of an extension and what to do; None without one."""
    stage = f"extensions:{name}"
    runs = runrecords.runs(job.manifest.parent / "records" / "runs")
    last = next((one for run in runs for one in run.stages if one.name == stage), None)
    if last is None or last.outcome != "failed":
        return None
    log = last.diagnosis.get("log")
    diagnose = f"doit diagnose profile={job.profile} --log {log}" if log else ""
    remedy = diagnose or str(last.error.get("todo") or job.again)
    return f"its last build failed: {last.error.get('what', 'see its log')}", remedy


def made_for_this_torch(job: ValidateJob, built: Mapping[str, Built]) -> Iterator[Check]:
    """Of each extension that tells which torch it was built for; one of an earlier torch can load
    without an error, and misbehave.
    """
    if "extensions" not in job.checks or not Path(job.surface).is_file():
        return
    now = manifests.read(job.surface, Surface).name
    for name, one in built.items():
        if one.surface:
            yield made_for(name, one.surface, now, job.again)


def warnings(job: ValidateJob) -> tuple[str, ...]:
    """Where a stage would run now: what was built is not what is asked for."""
    absent = {path for path in job.extensions.values() if not Path(path).is_file()}
    moved = {
        stage.name: reasons
        for stage in job.stages
        if absent.isdisjoint(stage.leaves) and (reasons := records.reasons(stage))
    }
    if not moved:
        return ()
    told = "; ".join(f"{name}: {shortened(reasons)}" for name, reasons in moved.items())
    return (f"what was built is not what the settings ask for now ({told}): {job.again}",)
