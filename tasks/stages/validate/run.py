"""Run the stage validate: run the checks, write manifest and report, fail if a check failed."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
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
from tasks.stages.validate.check_results import (
    add_diagnosis,
    build_validation,
    check_abi_match,
    select_checks,
)
from tasks.stages.validate.model import ValidateJob, Validation
from tasks.stages.validate.torch_checks_io import (
    CodeCheckContext,
    check_cpp_program,
    find_code_reader,
)
from tasks.stages.wheel.model import AbiFingerprint, Wheel
from tasks.system import files, manifests, process_group, screen, shell
from tasks.system.output import print_report
from tasks.system.profile_hint import add_profile_argument


def read_torch(job: ValidateJob) -> Wheel:
    """Return the torch of this profile; raise `TorchyardError` with a hint if it is not built."""
    if not Path(job.wheel).is_file():
        raise TorchyardError(
            f"there is no torch of profile {job.profile} yet",
            location=str(job.wheel),
            hint=job.build_command,
        )
    return manifests.read_manifest(job.wheel, Wheel)


def read_extensions(job: ValidateJob) -> tuple[dict[str, BuiltExtension], dict[str, str]]:
    """Return the built extensions, and the reason for each missing one, by name."""
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
    """Yield the checks of a missing extension: the first has failed, the others were not run."""
    kinds = [("extensions", "import"), ("machine_code", "machine code")]
    for name, reason in missing.items():
        detail, remedy = _find_last_failure(job, name) or (reason, job.build_command)
        smoke = [("extensions", "smoke check")] if name in job.smokes else []
        titles = [title for kind, title in [*kinds, *smoke] if kind in job.checks]
        for index, title in enumerate(titles):
            yield (
                ValidationResult(f"{name}: {title}", "not run", "it is not built")
                if index
                else ValidationResult(f"{name}: {title}", "failed", detail, remedy)
            )


def _find_last_failure(job: ValidateJob, name: str) -> tuple[str, str] | None:
    """Return the error of the last build of an extension and what to do; None without one."""
    stage = f"extensions:{name}"
    runs = run_record_io.read_runs(job.manifest.parent / "records" / "runs")
    stage_run = next(
        (record for run in runs for record in run.stages if record.name == stage), None
    )
    if stage_run is None or stage_run.outcome != "failed":
        return None
    log = stage_run.diagnosis.get("log")
    diagnose = f"doit diagnose profile={job.profile} --log {log}" if log else ""
    remedy = diagnose or str(stage_run.error.get("todo") or job.build_command)
    return f"its last build failed: {stage_run.error.get('what', 'see its log')}", remedy


def check_extension_abis(
    job: ValidateJob, built: Mapping[str, BuiltExtension]
) -> Iterator[ValidationResult]:
    """Check each extension that records the torch it was built for.

    An extension of an earlier torch may load without an error and misbehave.
    """
    if "extensions" not in job.checks or not Path(job.abi_manifest).is_file():
        return
    current_abi = manifests.read_manifest(job.abi_manifest, AbiFingerprint).name
    for name, extension in built.items():
        if extension.surface:
            yield check_abi_match(name, extension.surface, current_abi, job.build_command)


def list_validation_warnings(job: ValidateJob) -> tuple[str, ...]:
    """Return a warning if a stage would run now: the build does not match the settings."""
    missing = {path for path in job.extensions.values() if not Path(path).is_file()}
    stale_stages = {
        stage.name: reasons
        for stage in job.stages
        if missing.isdisjoint(stage.outputs)
        and (reasons := stage_record_io.find_rebuild_reasons(stage))
    }
    if not stale_stages:
        return ()
    details = "; ".join(
        f"{name}: {format_short_reasons(reasons)}" for name, reasons in stale_stages.items()
    )
    return (
        f"what was built is not what the settings ask for now ({details}): {job.build_command}",
    )


def run(job: ValidateJob) -> tuple[Validation]:
    """Run the requested checks.

    Raises `ValidationFailedError`, after writing the manifest, if a check failed; `TorchyardError`
    if there is no torch.
    """
    wheel = read_torch(job)
    manifests.remove_manifests(job.manifest, job.junit)
    checks = select_checks(_run_checks(job, wheel), job.checks)
    results = [_ensure_remedy(job, check) for check in checks]
    validation = build_validation(wheel.version, results, list_validation_warnings(job))
    manifests.write_manifest(job.manifest, validation)
    files.write_atomic(
        job.junit, redact_secrets(check_results.format_junit(job.profile, validation))
    )
    shortened = check_results.shorten_paths(job.root, validation)
    _print_table(shortened)
    _require_no_failures(job, shortened)
    return (validation,)


def _run_checks(job: ValidateJob, wheel: Wheel) -> list[ValidationResult]:
    """Run all checks.

    Machine code is read in a second thread, because cuobjdump takes as long as the probe.
    """
    deps = manifests.read_manifest(job.deps, DepsManifest)
    built, missing = read_extensions(job)
    env = manifests.read_manifest(job.environment, Environment).build_child_environment(
        shell.build_host_env()
    )
    stopped = Event()
    with ThreadPoolExecutor(max_workers=1) as executor, _interrupt_on_error(stopped):
        code = executor.submit(_check_machine_code, job, deps, wheel, built, stopped)
        works = (
            _check_cpp_libraries(job, deps, wheel, env)
            if wheel.kind == "libtorch"
            else _check_python_torch(job, wheel, built, env)
        )
        return [*works, *code.result(), *build_missing_checks(job, missing)]


@contextmanager
def _interrupt_on_error(ended: Event) -> Iterator[None]:
    """Stop the reading thread on an interrupt, which reaches only the main thread."""
    try:
        yield
    except BaseException:
        ended.set()
        process_group.interrupt_all()
        raise


def _check_machine_code(
    job: ValidateJob,
    deps: DepsManifest,
    wheel: Wheel,
    built: Mapping[str, BuiltExtension],
    ended: Event,
) -> list[ValidationResult]:
    if "machine_code" not in job.checks:
        return []
    context = CodeCheckContext(
        job, load_knowledge(Path(job.knowledge)), find_code_reader(deps, wheel)
    )
    with shell.stop_commands_when(ended.is_set):
        return [
            torch_checks_io.check_torch_code(context, wheel),
            *torch_checks_io.check_extension_code(context, deps, built),
        ]


def _check_python_torch(
    job: ValidateJob, wheel: Wheel, built: Mapping[str, BuiltExtension], env: Mapping[str, str]
) -> list[ValidationResult]:
    probe_output = torch_checks_io.run_probe(job, wheel, built, env)
    return [
        *check_extension_abis(job, built),
        *torch_checks_io.collect_probe_checks(job, wheel, probe_output, built),
        *torch_checks_io.run_smoke_checks(job, probe_output, built, wheel.python, env),
    ]


def _check_cpp_libraries(
    job: ValidateJob, deps: DepsManifest, wheel: Wheel, env: Mapping[str, str]
) -> list[ValidationResult]:
    """Check a build of only the C++ libraries, which has no torch to import."""
    skipped = [name for name in job.checks if name not in ("import", "machine_code", "extensions")]
    return [
        check_cpp_program(job, deps, wheel, env),
        *(ValidationResult(name, "not run", "a C++ build has no Python torch") for name in skipped),
    ]


def _ensure_remedy(job: ValidateJob, check: ValidationResult) -> ValidationResult:
    """Add a hint to a failed check without one, and the profile to torchyard commands in hints."""
    if check.status != "failed":
        return check
    result = add_diagnosis(load_knowledge(Path(job.knowledge)), check)
    return replace(
        result, remedy=add_profile_argument(result.remedy or f"see {job.log.parent}", job.profile)
    )


def _print_table(found: Validation) -> None:
    print_report(
        check_results.format_validation(
            found, screen.read_terminal_width(screen.WIDE_COLUMNS, sys.maxsize), screen.colour_text
        )
    )


def _require_no_failures(job: ValidateJob, found: Validation) -> None:
    failures = [check for check in found.checks if check.status == "failed"]
    if failures:
        names = ", ".join(check.name for check in failures)
        raise ValidationFailedError(
            f"{len(failures)} of {len(found.checks)} checks failed: {names}",
            location=str(job.manifest),
            hint=check_results.join_hints(failures),
        )
