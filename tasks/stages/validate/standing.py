"""Whether what stands there can be looked at, and whether it is still what the settings ask for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from tasks.core.errors import TorchyardError
from tasks.core.formatting.few import format_short_reasons
from tasks.core.model import ValidationResult
from tasks.runlog import records, runrecords
from tasks.stages.extensions.job import BuiltExtension
from tasks.stages.validate.checks import check_abi_match
from tasks.stages.validate.job import ValidateJob
from tasks.stages.wheel.job import AbiFingerprint, Wheel
from tasks.system import manifests


def read_torch(job: ValidateJob) -> Wheel:
    """The torch of this profile; a `BuildError` that says what to run where there is none."""
    if not Path(job.wheel).is_file():
        raise TorchyardError(
            f"there is no torch of profile {job.profile} yet",
            location=str(job.wheel),
            hint=job.build_command,
        )
    return manifests.read_manifest(job.wheel, Wheel)


def read_extensions(job: ValidateJob) -> tuple[dict[str, BuiltExtension], dict[str, str]]:
    """Those that are built, and why each other one is not there, by name."""
    built, missing = {}, {}
    for name, path in job.extensions.items():
        if not Path(path).is_file():
            missing[name] = f"it is not built yet: there is no {path}"
            continue
        try:
            built[name] = manifests.read_manifest(path, BuiltExtension)
        except TorchyardError as error:
            missing[name] = f"{error.location}: {error.message}"
    return built, missing


def build_missing_checks(
    job: ValidateJob, missing: Mapping[str, str]
) -> Iterator[ValidationResult]:
    """What is asked of an extension that is not there: the first check has failed, the others were
    not run.
    """
    kinds = [("extensions", "import"), ("machine_code", "machine code")]
    for name, why in missing.items():
        told, remedy = _find_last_failure(job, name) or (why, job.build_command)
        smoke = [("extensions", "smoke check")] if name in job.smokes else []
        asked = [what for kind, what in [*kinds, *smoke] if kind in job.checks]
        for place, what in enumerate(asked):
            yield (
                ValidationResult(f"{name}: {what}", "not run", "it is not built")
                if place
                else ValidationResult(f"{name}: {what}", "failed", told, remedy)
            )


def _find_last_failure(job: ValidateJob, name: str) -> tuple[str, str] | None:
    """Return the error of the last build of an extension and what to do; None without one."""
    stage = f"extensions:{name}"
    runs = runrecords.read_runs(job.manifest.parent / "records" / "runs")
    last = next((one for run in runs for one in run.stages if one.name == stage), None)
    if last is None or last.outcome != "failed":
        return None
    log = last.diagnosis.get("log")
    diagnose = f"doit diagnose profile={job.profile} --log {log}" if log else ""
    remedy = diagnose or str(last.error.get("todo") or job.build_command)
    return f"its last build failed: {last.error.get('what', 'see its log')}", remedy


def check_extension_abis(
    job: ValidateJob, built: Mapping[str, BuiltExtension]
) -> Iterator[ValidationResult]:
    """Of each extension that tells which torch it was built for; one of an earlier torch can load
    without an error, and misbehave.
    """
    if "extensions" not in job.checks or not Path(job.abi_manifest).is_file():
        return
    now = manifests.read_manifest(job.abi_manifest, AbiFingerprint).name
    for name, one in built.items():
        if one.surface:
            yield check_abi_match(name, one.surface, now, job.build_command)


def list_validation_warnings(job: ValidateJob) -> tuple[str, ...]:
    """Where a stage would run now: what was built is not what is asked for."""
    absent = {path for path in job.extensions.values() if not Path(path).is_file()}
    moved = {
        stage.name: reasons
        for stage in job.stages
        if absent.isdisjoint(stage.outputs) and (reasons := records.find_rebuild_reasons(stage))
    }
    if not moved:
        return ()
    told = "; ".join(f"{name}: {format_short_reasons(reasons)}" for name, reasons in moved.items())
    return (f"what was built is not what the settings ask for now ({told}): {job.build_command}",)
