"""Apply an automatic fix to a failed stage, once, if `build.auto_fix` is set.

The fixes are fewer jobs, submodules, forced includes and a build without isolation. The user's
sources are never changed: an extension is built in a copy, and a tree outside build/ is not
modified.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tasks.core.errors import MissingCodeError, TorchyardError
from tasks.core.model import Stage
from tasks.doctor import explain_failure_io, host_hints_io
from tasks.jobs.out_of_memory import KilledAttempt, decide_retry
from tasks.runlog.memory_monitor_io import MEMORY_MONITOR
from tasks.system import git
from tasks.system.hardware import capacity
from tasks.system.output import print_line, print_warning

if TYPE_CHECKING:
    from tasks.doctor.explain_failure_io import FailureExplanation
    from tasks.lock.opened_profile_io import Profile
    from tasks.runlog.memory_monitor_io import ObservedMemory

StageAction = Callable[[Any], tuple[Any, ...]]


@dataclass(frozen=True)
class AutoFix:
    """A fix: its description, the job to run the stage with again, and an action to run before."""

    description: str
    job: Any
    before: Callable[[], None] = lambda: None


def run_with_auto_fix(
    stage: Stage, run: StageAction, profile: Profile
) -> tuple[tuple[Any, ...], str]:
    """Run the stage; return its outputs and the description of the applied fix, "" for none.

    Raises the stage's `TorchyardError`, with the cause that its log shows.
    """
    with MEMORY_MONITOR.observe_memory() as memory:
        try:
            return run(stage.job), ""
        except TorchyardError as error:
            fix = _find_auto_fix(stage, error, profile, memory)
            if fix is None:
                raise
            print_warning(
                f"{stage.name} failed: {error.cause}. By build.auto_fix, once: {fix.description}"
            )
    return _run_auto_fix(stage, run, profile, fix), fix.description


def _run_auto_fix(
    stage: Stage, run: StageAction, profile: Profile, cure: AutoFix
) -> tuple[Any, ...]:
    with MEMORY_MONITOR.observe_memory() as memory:
        try:
            cure.before()
            outputs = run(cure.job)
        except TorchyardError as error:
            _explain_safely(stage, error, profile, memory)
            error.hint = "; ".join(
                filter(None, (error.hint, f"build.auto_fix has tried: {cure.description}"))
            )
            print_warning(f"{stage.name} failed again, after {cure.description}")
            raise
    print_line(f"{stage.name} went well after {cure.description}")
    return outputs


def _find_auto_fix(
    stage: Stage, error: TorchyardError, profile: Profile, seen: ObservedMemory
) -> AutoFix | None:
    """Return the fix for the error; None if the error already has a hint, or auto-fix is off."""
    has_hint = bool(error.hint)
    explanation = _explain_safely(stage, error, profile, seen)
    if explanation is None or has_hint or not profile.loaded.settings.build.auto_fix:
        return None
    return choose_auto_fix(stage, explanation, profile)


def _explain_safely(
    stage: Stage, error: TorchyardError, profile: Profile, seen: ObservedMemory
) -> FailureExplanation | None:
    """Explain the error.

    An unreadable log or a bug in the diagnosis must not hide the error itself.
    """
    try:
        if isinstance(error, MissingCodeError):
            error.hint = host_hints_io.suggest_other_torch(profile)
        return explain_failure_io.explain_error(stage, error, profile, seen)
    except (TorchyardError, OSError):
        return None
    except Exception as bug:  # noqa: BLE001 - the stage's error must be reported
        print_warning(
            f"why {stage.name} failed could not be looked for: {type(bug).__name__}: {bug}"
        )
        return None


def choose_auto_fix(stage: Stage, told: FailureExplanation, profile: Profile) -> AutoFix | None:
    """Return the fix for the diagnosed failure; None without a fix, or if it is already applied."""
    kind, _, header = (told.found.failure.auto_fix if told.found.failure else "").partition(" ")
    match kind:
        case "fewer-jobs":
            return _reduce_jobs(stage)
        case "submodules":
            return _fetch_submodules(stage, profile)
        case "forced-include":
            return _force_include(stage, header)
        case "no-build-isolation":
            return _disable_build_isolation(stage)
        case _:
            return None


def _reduce_jobs(stage: Stage) -> AutoFix | None:
    """Halve the jobs if the scheduler did not: the log names no compiler that was killed."""
    requested = getattr(stage.job, "jobs", 1)
    safe_jobs = capacity.compute_safe_jobs(most=requested or 0)
    reduced = decide_retry(KilledAttempt(memory_short=True, jobs=None, safe_jobs=safe_jobs)).jobs
    if reduced is None or (requested is not None and reduced >= requested):
        return None
    return AutoFix(f"build.jobs: {reduced}", replace(stage.job, jobs=reduced))


def _fetch_submodules(stage: Stage, profile: Profile) -> AutoFix | None:
    if stage.kind == "extensions" and stage.job.kind == "git" and not stage.job.submodules:
        return AutoFix("submodules: true", replace(stage.job, submodules=True))
    source = next((source_stage.job for source_stage in profile.plan.find_stages("source")), None)
    if stage.kind != "compile" or source is None or source.kind != "git":
        return None
    if not source.tree.is_relative_to(profile.layout.build):
        return None

    def update_source_submodules() -> None:
        git.update_submodules(source.tree, mirrors=source.mirrors, log=stage.job.log)

    return AutoFix("git submodule sync and update", stage.job, update_source_submodules)


def _force_include(stage: Stage, header: str) -> AutoFix | None:
    if stage.kind != "extensions" or header in stage.job.includes:
        return None
    job = replace(stage.job, includes=(*stage.job.includes, header))
    return AutoFix(f"includes: [{', '.join(job.includes)}]", job)


def _disable_build_isolation(stage: Stage) -> AutoFix | None:
    """Build the requirements of an extension without isolation.

    The extension itself is never built in isolation.
    """
    if stage.kind != "extensions" or not stage.job.requires or not stage.job.isolated:
        return None
    description = f"--no-build-isolation for {', '.join(stage.job.requires)}"
    return AutoFix(description, replace(stage.job, isolated=False))
