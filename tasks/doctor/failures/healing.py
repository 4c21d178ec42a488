"""What a build does by itself about a failure that has a safe remedy, once, where `build.heal` is
set: fewer jobs, submodules, headers forced in, a build without isolation.

Nothing of it touches a person's own sources: an extension is built in a copy, and a tree that is
not below build/ is left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tasks.core.errors import BuildError, MissingCodeError
from tasks.core.model import Stage
from tasks.doctor.failures import diagnosed, onsite
from tasks.runlog import witness
from tasks.system import git
from tasks.system.hardware import capacity
from tasks.system.voice import say, warn

if TYPE_CHECKING:
    from tasks.doctor.failures.diagnosed import Diagnosed
    from tasks.lock.profile import Profile

Run = Callable[[Any], tuple[Any, ...]]


@dataclass(frozen=True)
class Cure:
    """What is done, in words, and the job that the stage is run with again."""

    said: str
    job: Any
    before: Callable[[], None] = lambda: None


def attempt(stage: Stage, run: Run, profile: Profile) -> tuple[tuple[Any, ...], str]:
    """What the stage leaves, and what was done about a failure of it, "" for nothing.

    Raises its `BuildError`, which then tells why, by its log.
    """
    with witness.watching() as seen:
        try:
            return run(stage.job), ""
        except BuildError as error:
            cure = _cure(stage, error, profile, seen)
            if cure is None:
                raise
            warn(f"{stage.name} failed: {error.cause}. By build.heal, once: {cure.said}")
    return _again(stage, run, profile, cure), cure.said


def _again(stage: Stage, run: Run, profile: Profile, cure: Cure) -> tuple[Any, ...]:
    with witness.watching() as seen:
        try:
            cure.before()
            outputs = run(cure.job)
        except BuildError as error:
            _explain(stage, error, profile, seen)
            error.todo = "; ".join(filter(None, (error.todo, f"build.heal has tried: {cure.said}")))
            warn(f"{stage.name} failed again, after {cure.said}")
            raise
    say(f"{stage.name} went well after {cure.said}")
    return outputs


def _cure(stage: Stage, error: BuildError, profile: Profile, seen: witness.Witness) -> Cure | None:
    """What there is to do; nothing where who failed knows better already."""
    by_hand = bool(error.todo)
    told = _explain(stage, error, profile, seen)
    if told is None or by_hand or not profile.loaded.settings.build.heal:
        return None
    return cure_for(stage, told, profile)


def _explain(
    stage: Stage, error: BuildError, profile: Profile, seen: witness.Witness
) -> Diagnosed | None:
    """A log that cannot be read, or a bug in what reads it, must not hide what went wrong."""
    try:
        if isinstance(error, MissingCodeError):
            error.todo = onsite.suggest_other_torch(profile)
        return diagnosed.explained(stage, error, profile, seen)
    except (BuildError, OSError):
        return None
    except Exception as bug:  # noqa: BLE001 - the stage's own error is what has to be told
        warn(f"why {stage.name} failed could not be looked for: {type(bug).__name__}: {bug}")
        return None


def cure_for(stage: Stage, told: Diagnosed, profile: Profile) -> Cure | None:
    """What can be done about it in this stage that is not done yet."""
    heal, _, header = (told.found.failure.heal if told.found.failure else "").partition(" ")
    match heal:
        case "fewer-jobs":
            return _fewer_jobs(stage)
        case "submodules":
            return _submodules(stage, profile)
        case "forced-include":
            return _forced_include(stage, header)
        case "no-build-isolation":
            return _no_isolation(stage)
        case _:
            return None


def _fewer_jobs(stage: Stage) -> Cure | None:
    """Where the crew that runs the compilers did not see it."""
    asked = getattr(stage.job, "jobs", 1)
    now = max(1, min(asked or capacity.cores(), capacity.safe_jobs()) // 2)
    if asked is not None and now >= asked:
        return None
    return Cure(f"build.jobs: {now}", replace(stage.job, jobs=now))


def _submodules(stage: Stage, profile: Profile) -> Cure | None:
    if stage.room == "extensions" and stage.job.kind == "git" and not stage.job.submodules:
        return Cure("submodules: true", replace(stage.job, submodules=True))
    source = next((one.job for one in profile.plan.of("source")), None)
    if stage.room != "compile" or source is None or source.kind != "git":
        return None
    if not source.tree.is_relative_to(profile.layout.build):
        return None

    def update() -> None:
        git.update_submodules(source.tree, mirrors=source.mirrors, log=stage.job.log)

    return Cure("git submodule sync and update", stage.job, update)


def _forced_include(stage: Stage, header: str) -> Cure | None:
    if stage.room != "extensions" or header in stage.job.includes:
        return None
    job = replace(stage.job, includes=(*stage.job.includes, header))
    return Cure(f"includes: [{', '.join(job.includes)}]", job)


def _no_isolation(stage: Stage) -> Cure | None:
    """An extension itself is never built in isolation; what its build requires is."""
    if stage.room != "extensions" or not stage.job.requires or not stage.job.isolated:
        return None
    said = f"--no-build-isolation for {', '.join(stage.job.requires)}"
    return Cure(said, replace(stage.job, isolated=False))
