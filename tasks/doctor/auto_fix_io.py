"""Run a failed stage once more with an automatic fix, if `build.auto_fix` is set.

No fix changes the user's sources: extensions are built in copies, and a PyTorch tree outside of
build/ gets no fix that modifies it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tasks.core.errors import MissingCodeError, TorchyardError
from tasks.core.model import Stage
from tasks.doctor import explain_failure_io
from tasks.doctor.explain_failure_io import FailureExplanation
from tasks.jobs.out_of_memory import KilledAttempt, decide_retry
from tasks.lock.opened_profile_io import Profile
from tasks.runlog.memory_monitor_io import MEMORY_MONITOR, ObservedMemory
from tasks.system.git import clones
from tasks.system.hardware import capacity
from tasks.system.output import print_line, print_warning

StageAction = Callable[[Any], tuple[Any, ...]]


@dataclass(frozen=True)
class AutoFix:
    """An automatic fix: `before` is called, and then the stage runs once more with `job`."""

    description: str
    job: Any
    before: Callable[[], object] = lambda: None


def run_with_auto_fix(
    stage: Stage, run: StageAction, profile: Profile
) -> tuple[tuple[Any, ...], str]:
    """Run the stage. Return its outputs and the description of the applied fix, if any.

    Raises the `TorchyardError` of the stage, with the cause of the failure if the log shows it. An
    error with a hint gets no fix.
    """
    with MEMORY_MONITOR.observe_memory() as memory:
        try:
            return run(stage.job), ""
        except TorchyardError as error:
            has_hint = bool(error.hint)
            explanation = _explain_safely(stage, error, profile, memory)
            if explanation is None or has_hint or not profile.loaded.settings.build.auto_fix:
                raise
            fix = _choose_auto_fix(stage, explanation, profile)
            if fix is None:
                raise
            retry = f"build.auto_fix runs the stage once more, with {fix.description}"
            print_warning(f"{stage.name} failed: {error.cause}. {retry}")
    with MEMORY_MONITOR.observe_memory() as memory:
        try:
            fix.before()
            outputs = run(fix.job)
        except TorchyardError as error:
            _explain_safely(stage, error, profile, memory)
            attempt = f"build.auto_fix already tried {fix.description}"
            error.hint = "; ".join(filter(None, (error.hint, attempt)))
            print_warning(f"{stage.name} failed again with {fix.description}")
            raise
    print_line(f"{stage.name} succeeded with {fix.description}")
    return outputs, fix.description


def _explain_safely(
    stage: Stage, error: TorchyardError, profile: Profile, memory: ObservedMemory
) -> FailureExplanation | None:
    """Explain `error`. Return None instead of raising if the diagnosis itself fails."""
    try:
        if isinstance(error, MissingCodeError):
            error.hint = explain_failure_io.suggest_other_torch(profile)
        return explain_failure_io.explain_error(stage, error, profile, memory)
    except (TorchyardError, OSError):
        return None
    except Exception as bug:  # noqa: BLE001 - `error` must be reported
        reason = f"{type(bug).__name__}: {bug}"
        print_warning(f"the diagnosis of the failed stage {stage.name} crashed: {reason}")
        return None


def _choose_auto_fix(
    stage: Stage, explanation: FailureExplanation, profile: Profile
) -> AutoFix | None:
    """Return the automatic fix for the failure, or None if no fix is left to try."""
    job, is_extension = stage.job, stage.kind == "extensions"
    failure = explanation.found.failure
    kind, _, header = (failure.auto_fix if failure else "").partition(" ")
    match kind:
        case "fewer-jobs":  # half of the jobs that memory allows, unless the job has as few
            requested = getattr(job, "jobs", 1)
            safe_jobs = capacity.compute_safe_jobs(most=requested or 0)
            attempt = KilledAttempt(memory_short=True, jobs=None, safe_jobs=safe_jobs)
            reduced = decide_retry(attempt).jobs
            if reduced is not None and (requested is None or reduced < requested):
                return AutoFix(f"build.jobs: {reduced}", replace(job, jobs=reduced))
        case "submodules":
            return _fetch_submodules(stage, profile)
        case "forced-include" if is_extension and header not in job.includes:
            includes = (*job.includes, header)
            return AutoFix(f"includes: [{', '.join(includes)}]", replace(job, includes=includes))
        case "no-build-isolation" if is_extension and job.requires and job.isolated:
            description = f"--no-build-isolation for {', '.join(job.requires)}"
            return AutoFix(description, replace(job, isolated=False))
    return None


def _fetch_submodules(stage: Stage, profile: Profile) -> AutoFix | None:
    if stage.kind == "extensions" and stage.job.kind == "git" and not stage.job.submodules:
        return AutoFix("submodules: true", replace(stage.job, submodules=True))
    source = next((one.job for one in profile.plan.find_stages("source")), None)
    if stage.kind != "compile" or source is None or source.kind != "git":
        return None
    if not source.tree.is_relative_to(profile.layout.build):
        return None
    update = partial(
        clones.update_submodules, source.tree, mirrors=source.mirrors, log=stage.job.log
    )
    return AutoFix("git submodule sync and update", stage.job, update)
