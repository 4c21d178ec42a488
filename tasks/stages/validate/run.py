"""Run the `validate` stage: run the checks, write manifest and report, fail if one failed."""

import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Event

from tasks.core.deps_model import DepsManifest
from tasks.core.errors import TorchyardError, ValidationFailedError, redact_secrets
from tasks.core.model import ValidationResult
from tasks.core.text_formatting import format_short_reasons
from tasks.knowledge.knowledge_files_io import load_knowledge
from tasks.runlog import run_record_io, stage_record_io
from tasks.stages.env.model import Environment
from tasks.stages.extensions.model import BuiltExtension
from tasks.stages.validate import check_results, torch_checks_io
from tasks.stages.validate.model import ValidateJob, Validation
from tasks.stages.validate.torch_checks_io import CodeChecker
from tasks.stages.wheel.model import AbiFingerprint, Wheel
from tasks.system import files, manifests, process_group, screen, shell
from tasks.system.invocation import add_profile_argument
from tasks.system.output import print_report

_CPP_CHECKS = ("import", "machine_code", "extensions")  # also run if only libtorch was built


def read_extensions(job: ValidateJob) -> tuple[dict[str, BuiltExtension], dict[str, str]]:
    """Return the built extensions, and the reason for each missing one, by name."""
    built, missing = {}, {}
    for name, path in job.extensions.items():
        try:
            built[name] = manifests.read_manifest(path, BuiltExtension)
        except TorchyardError as error:
            missing[name] = f"{error.location}: {error.message}"
            if not Path(path).is_file():
                missing[name] = f"not built yet: {path} is missing"
    return built, missing


def build_missing_checks(
    job: ValidateJob, missing: Mapping[str, str]
) -> Iterator[ValidationResult]:
    """Yield the checks of each missing extension: the first as failed, the others as not run."""
    for name, reason in missing.items():
        smoke = [("extensions", "smoke check")] if name in job.smokes else []
        kinds = [("extensions", "import"), ("machine_code", "machine code"), *smoke]
        titles = [f"{name}: {title}" for kind, title in kinds if kind in job.checks]
        for index, title in enumerate(titles):
            if index:
                yield ValidationResult(title, "not run", "the extension is not built")
            else:
                detail, remedy = _find_last_failure(job, name) or (reason, job.build_command)
                yield ValidationResult(title, "failed", detail, remedy)


def _find_last_failure(job: ValidateJob, name: str) -> tuple[str, str] | None:
    """Return the error and the hint of the last build of an extension, if this build failed."""
    runs = run_record_io.read_runs(job.layout.build / "records" / "runs")
    records = (record for run in runs for record in run.stages)
    record = next((record for record in records if record.name == f"extensions:{name}"), None)
    if record is None or record.outcome != "failed":
        return None
    log = record.diagnosis.get("log")
    diagnose = f"doit diagnose profile={job.layout.profile} --log {log}" if log else ""
    remedy = diagnose or str(record.error.get("todo") or job.build_command)
    return f"the last build failed: {record.error.get('what', 'see its log')}", remedy


def check_extension_abis(
    job: ValidateJob, built: Mapping[str, BuiltExtension]
) -> Iterator[ValidationResult]:
    """Check that each extension was built for the installed torch; otherwise it may crash."""
    manifest = job.layout.compute_manifest_path("surface")
    if "extensions" not in job.checks or not Path(manifest).is_file():
        return
    current = manifests.read_manifest(manifest, AbiFingerprint).name
    for name, extension in built.items():
        title, built_for = f"{name}: built for this torch", extension.surface
        if built_for == current:
            yield ValidationResult(title, "passed", f"ABI fingerprint {current}")
        elif built_for:
            detail = f"built for ABI fingerprint {built_for}, but the installed torch has {current}"
            remedy = f"build the extension again: {job.build_command}"
            yield ValidationResult(title, "failed", detail, remedy)


def list_validation_warnings(job: ValidateJob) -> tuple[str, ...]:
    """Return a warning if the build does not match the settings, else an empty tuple."""
    missing = {path for path in job.extensions.values() if not Path(path).is_file()}
    details = "; ".join(
        f"{stage.name}: {format_short_reasons(reasons)}"
        for stage in job.stages
        if missing.isdisjoint(stage.outputs)
        and (reasons := stage_record_io.find_rebuild_reasons(stage))
    )
    message = f"the build does not match the current settings ({details}); run: {job.build_command}"
    return (message,) if details else ()


def run(job: ValidateJob) -> tuple[Validation]:
    """Run the requested checks, write the manifest, and raise an error if a check failed."""
    wheel_manifest = Path(job.layout.compute_manifest_path("wheel"))
    if not wheel_manifest.is_file():
        message, hint = (
            f"profile {job.layout.profile} has no torch yet",
            f"run: {job.build_command}",
        )
        raise TorchyardError(message, location=str(wheel_manifest), hint=hint)
    wheel = manifests.read_manifest(wheel_manifest, Wheel)
    manifests.remove_manifests(job.manifest, job.junit)
    checks = check_results.select_checks(_run_checks(job, wheel), job.checks)
    knowledge, profile = load_knowledge(Path(job.layout.project.knowledge)), job.layout.profile
    results = [check_results.add_diagnosis(knowledge, check) for check in checks]
    for index, check in enumerate(results):
        if check.status == "failed":
            remedy = add_profile_argument(check.remedy or f"see {job.log.parent}", profile)
            results[index] = replace(check, remedy=remedy)
    warnings = list_validation_warnings(job)
    validation = check_results.build_validation(wheel.version, results, warnings)
    manifests.write_manifest(job.manifest, validation)
    report = check_results.format_junit(profile, validation)
    files.write_atomic(job.junit, redact_secrets(report))
    shortened = check_results.shorten_paths(job.layout.root, validation)
    columns = screen.read_terminal_width(screen.WIDE_COLUMNS, sys.maxsize)
    print_report(check_results.format_validation(shortened, columns, screen.colour_text))
    if failures := [check for check in shortened.checks if check.status == "failed"]:
        names, hint = ", ".join(one.name for one in failures), check_results.join_hints(failures)
        message = f"{len(failures)} of {len(checks)} checks failed: {names}"
        raise ValidationFailedError(message, location=str(job.manifest), hint=hint)
    return (validation,)


def _run_checks(job: ValidateJob, wheel: Wheel) -> list[ValidationResult]:
    """Run all checks. A second thread reads the machine code while the probe runs."""
    manifest_path, (built, missing) = job.layout.compute_manifest_path, read_extensions(job)
    deps = manifests.read_manifest(manifest_path("deps"), DepsManifest)
    environment = manifests.read_manifest(manifest_path("extension-env"), Environment)
    env = environment.build_child_environment(shell.build_host_env())
    stopped = Event()
    with ThreadPoolExecutor(max_workers=1) as executor:
        code = executor.submit(_check_machine_code, job, deps, wheel, built, stopped)
        try:
            if wheel.kind == "libtorch":  # no torch to import
                reason = "this profile builds only the C++ libraries"
                names = [name for name in job.checks if name not in _CPP_CHECKS]
                results = [ValidationResult(name, "not run", reason) for name in names]
                results.insert(0, torch_checks_io.check_cpp_program(job, deps, wheel, env))
            else:
                output = torch_checks_io.run_probe(job, wheel, built, env)
                results = [
                    *check_extension_abis(job, built),
                    *torch_checks_io.collect_probe_checks(job, wheel, output, built),
                    *torch_checks_io.run_smoke_checks(job, output, built, wheel.python, env),
                ]
            return [*results, *code.result(), *build_missing_checks(job, missing)]
        except BaseException:  # an interrupt reaches only the main thread
            stopped.set()
            process_group.interrupt_all()
            raise


def _check_machine_code(
    job: ValidateJob,
    deps: DepsManifest,
    wheel: Wheel,
    built: Mapping[str, BuiltExtension],
    stopped: Event,
) -> list[ValidationResult]:
    if "machine_code" not in job.checks:
        return []
    knowledge = load_knowledge(Path(job.layout.project.knowledge))
    checker = CodeChecker(job, knowledge, torch_checks_io.find_code_reader(deps, wheel))
    maker = deps.toolkit.version if deps.toolkit else None
    with shell.stop_commands_when(stopped.is_set):
        extensions = (checker.check_extension(one, maker) for one in built.values())
        return [checker.check_torch(wheel), *extensions]
