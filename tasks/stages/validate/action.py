"""Look from outside and from inside at once, write down what was found, and fail if need be."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event

from tasks.core.deps_model import DepsManifest
from tasks.core.errors import ValidationFailedError, redact_secrets
from tasks.core.model import ValidationResult
from tasks.knowledge import load_knowledge
from tasks.stages.env.job import Environment
from tasks.stages.extensions.job import BuiltExtension
from tasks.stages.validate import inside, junit, outside, standing, table
from tasks.stages.validate.checks import add_diagnosis, build_validation, select_checks
from tasks.stages.validate.job import ValidateJob, Validation
from tasks.stages.validate.outside import CodeCheckContext
from tasks.stages.validate.program import check_cpp_program
from tasks.stages.validate.reader import find_code_reader
from tasks.stages.wheel.job import Wheel
from tasks.system import files, manifests, shell, tty
from tasks.system.process import process_group
from tasks.system.typed import add_profile_argument
from tasks.system.voice import print_report


def run(job: ValidateJob) -> tuple[Validation]:
    """Every check that is asked for; `ValidationFailedError` after publishing if any failed, a
    `BuildError` where there is no torch to look at.
    """
    wheel = standing.read_torch(job)
    manifests.remove_manifests(job.manifest, job.junit)
    checks = select_checks(_run_checks(job, wheel), job.checks)
    told = [_ensure_remedy(job, check) for check in checks]
    found = build_validation(wheel.version, told, standing.list_validation_warnings(job))
    manifests.write_manifest(job.manifest, found)
    files.write_atomic(job.junit, redact_secrets(junit.format_junit(job.profile, found)))
    seen = table.shorten_paths(job.root, found)
    _print_table(seen)
    _require_no_failures(job, seen)
    return (found,)


def _run_checks(job: ValidateJob, wheel: Wheel) -> list[ValidationResult]:
    """cuobjdump takes as long as the probe, and neither waits for the other."""
    deps = manifests.read_manifest(job.deps, DepsManifest)
    built, missing = standing.read_extensions(job)
    env = manifests.read_manifest(job.environment, Environment).build_child_environment(
        shell.build_host_env()
    )
    ended = Event()
    with ThreadPoolExecutor(max_workers=1) as beside, _interrupt_on_error(ended):
        code = beside.submit(_check_machine_code, job, deps, wheel, built, ended)
        works = (
            _check_cpp_libraries(job, deps, wheel, env)
            if wheel.kind == "libtorch"
            else _check_python_torch(job, wheel, built, env)
        )
        return [*works, *code.result(), *standing.build_missing_checks(job, missing)]


@contextmanager
def _interrupt_on_error(ended: Event) -> Iterator[None]:
    """An interrupt reaches the main thread alone: what reads beside it ends with it."""
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
    look = CodeCheckContext(job, load_knowledge(Path(job.knowledge)), find_code_reader(deps, wheel))
    with shell.stop_commands_when(ended.is_set):
        return [
            outside.check_torch_code(look, wheel),
            *outside.check_extension_code(look, deps, built),
        ]


def _check_python_torch(
    job: ValidateJob, wheel: Wheel, built: Mapping[str, BuiltExtension], env: Mapping[str, str]
) -> list[ValidationResult]:
    said = inside.run_probe(job, wheel, built, env)
    return [
        *standing.check_extension_abis(job, built),
        *inside.collect_probe_checks(job, wheel, said, built),
        *inside.run_smoke_checks(job, said, built, wheel.python, env),
    ]


def _check_cpp_libraries(
    job: ValidateJob, deps: DepsManifest, wheel: Wheel, env: Mapping[str, str]
) -> list[ValidationResult]:
    """A build of the C++ libraries alone has no torch to import."""
    absent = [name for name in job.checks if name not in ("import", "machine_code", "extensions")]
    return [
        check_cpp_program(job, deps, wheel, env),
        *(ValidationResult(name, "not run", "a C++ build has no Python torch") for name in absent),
    ]


def _ensure_remedy(job: ValidateJob, check: ValidationResult) -> ValidationResult:
    """Nothing fails without a word on what to do then, and our commands in it are for this
    profile.
    """
    if check.status != "failed":
        return check
    told = add_diagnosis(load_knowledge(Path(job.knowledge)), check)
    return replace(
        told, remedy=add_profile_argument(told.remedy or f"see {job.log.parent}", job.profile)
    )


def _print_table(found: Validation) -> None:
    print_report(
        table.format_validation(
            found, tty.read_terminal_width(tty.WIDE_COLUMNS, sys.maxsize), tty.colour_text
        )
    )


def _require_no_failures(job: ValidateJob, found: Validation) -> None:
    failed = [check for check in found.checks if check.status == "failed"]
    if failed:
        names = ", ".join(check.name for check in failed)
        raise ValidationFailedError(
            f"{len(failed)} of {len(found.checks)} checks failed: {names}",
            location=str(job.manifest),
            hint=table.join_hints(failed),
        )
