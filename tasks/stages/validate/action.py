"""Look from outside and from inside at once, write down what was found, and fail if need be."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event

from tasks.core.deps_model import Deps
from tasks.core.errors import ValidationFailedError, redact
from tasks.core.model import Check
from tasks.knowledge import load
from tasks.stages.env.job import Environment
from tasks.stages.extensions.job import Built
from tasks.stages.validate import inside, junit, outside, standing, table
from tasks.stages.validate.checks import asked_for, diagnosed, validation
from tasks.stages.validate.job import ValidateJob, Validation
from tasks.stages.validate.outside import Look
from tasks.stages.validate.program import program_check
from tasks.stages.validate.reader import reader
from tasks.stages.wheel.job import Wheel
from tasks.system import files, manifests, shell, tty
from tasks.system.process import process_group
from tasks.system.typed import for_profile
from tasks.system.voice import show


def run(job: ValidateJob) -> tuple[Validation]:
    """Every check that is asked for; `ValidationFailedError` after publishing if any failed, a
    `BuildError` where there is no torch to look at.
    """
    wheel = standing.torch_of(job)
    manifests.withdraw(job.manifest, job.junit)
    checks = asked_for(_look(job, wheel), job.checks)
    told = [_with_remedy(job, check) for check in checks]
    found = validation(wheel.version, told, standing.warnings(job))
    manifests.publish(job.manifest, found)
    files.write_atomic(job.junit, redact(junit.document(job.profile, found)))
    seen = table.seen_from(job.root, found)
    _show(seen)
    _refuse(job, seen)
    return (found,)


def _look(job: ValidateJob, wheel: Wheel) -> list[Check]:
    """cuobjdump takes as long as the probe, and neither waits for the other."""
    deps = manifests.read(job.deps, Deps)
    built, missing = standing.extensions_of(job)
    env = manifests.read(job.environment, Environment).over(shell.host_env())
    ended = Event()
    with ThreadPoolExecutor(max_workers=1) as beside, _ending(ended):
        code = beside.submit(_code, job, deps, wheel, built, ended)
        works = (
            _cpp(job, deps, wheel, env)
            if wheel.kind == "libtorch"
            else _python(job, wheel, built, env)
        )
        return [*works, *code.result(), *standing.missing_checks(job, missing)]


@contextmanager
def _ending(ended: Event) -> Iterator[None]:
    """An interrupt reaches the main thread alone: what reads beside it ends with it."""
    try:
        yield
    except BaseException:
        ended.set()
        process_group.interrupt_all()
        raise


def _code(
    job: ValidateJob, deps: Deps, wheel: Wheel, built: Mapping[str, Built], ended: Event
) -> list[Check]:
    if "machine_code" not in job.checks:
        return []
    look = Look(job, load(Path(job.knowledge)), reader(deps, wheel))
    with shell.until(ended.is_set):
        return [outside.torch_code(look, wheel), *outside.extension_code(look, deps, built)]


def _python(
    job: ValidateJob, wheel: Wheel, built: Mapping[str, Built], env: Mapping[str, str]
) -> list[Check]:
    said = inside.ask(job, wheel, built, env)
    return [
        *standing.made_for_this_torch(job, built),
        *inside.probe_checks(job, wheel, said, built),
        *inside.smoke_checks(job, said, built, wheel.python, env),
    ]


def _cpp(job: ValidateJob, deps: Deps, wheel: Wheel, env: Mapping[str, str]) -> list[Check]:
    """A build of the C++ libraries alone has no torch to import."""
    absent = [name for name in job.checks if name not in ("import", "machine_code", "extensions")]
    return [
        program_check(job, deps, wheel, env),
        *(Check(name, "not run", "a C++ build has no Python torch") for name in absent),
    ]


def _with_remedy(job: ValidateJob, check: Check) -> Check:
    """Nothing fails without a word on what to do then, and our commands in it are for this
    profile.
    """
    if check.status != "failed":
        return check
    told = diagnosed(load(Path(job.knowledge)), check)
    return replace(told, remedy=for_profile(told.remedy or f"see {job.log.parent}", job.profile))


def _show(found: Validation) -> None:
    show(table.plain(found, tty.width(tty.WIDE, sys.maxsize), tty.paint))


def _refuse(job: ValidateJob, found: Validation) -> None:
    failed = [check for check in found.checks if check.status == "failed"]
    if failed:
        names = ", ".join(check.name for check in failed)
        raise ValidationFailedError(
            f"{len(failed)} of {len(found.checks)} checks failed: {names}",
            where=str(job.manifest),
            todo=table.remedies(failed),
        )
