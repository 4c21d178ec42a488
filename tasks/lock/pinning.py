"""A plan that takes what torchyard.lock holds, part by part; where the settings ask for something
else the part is resolved anew, and that is said. Pure.

What is locked is in the jobs and not in the inputs: a build that is that already runs no stage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from tasks.core.dependencies import versions
from tasks.core.deps_model import DepsJob
from tasks.core.errors import redact
from tasks.core.model import Plan
from tasks.core.resolution import Choice
from tasks.knowledge.wheels import machine_name
from tasks.lock.section import Made, Profile
from tasks.stages.extensions.job import ExtensionJob
from tasks.stages.source.job import SourceJob
from tasks.stages.wheel.job import BuiltJob, PrebuiltJob


def pinned(plan: Plan, section: Profile, choice: Choice) -> Plan:
    """The plan with what is locked in its jobs, and a warning for all that is not taken."""
    if away := _other_machine(section, choice):
        return replace(plan, warnings=(*plan.warnings, _told(away)))
    fits = not _other_torch(plan, section, choice)
    pairs = [(stage, _job(stage.job, section, torch=fits)) for stage in plan.stages]
    stages = tuple(replace(stage, job=job) if job else stage for stage, job in pairs)
    told = (_told(line) for line in _differences(plan, section, choice))
    return replace(plan, stages=stages, warnings=(*plan.warnings, *told))


def machine(choice: Choice) -> tuple[str, str]:
    """Python and platform as a section names them."""
    return choice.python.minor, f"{choice.system} {machine_name(choice.machine)}"


def _told(difference: str) -> str:
    return f"torchyard.lock: {difference}: resolved anew; doit lock writes what comes of it"


def _other_machine(section: Profile, choice: Choice) -> str:
    python, platform = machine(choice)
    if (section.python, section.platform) == (python, platform):
        return ""
    held = f"Python {section.python} on {section.platform}"
    return f"this profile is locked for {held}, and this is Python {python} on {platform}"


def _other_torch(plan: Plan, section: Profile, choice: Choice) -> str:
    held, asked = section.release, _release(choice)
    if (section.strategy, held) == (choice.strategy, asked):
        wheel = section.torch.wheel
        wanted = next((one.job for one in plan.stages if isinstance(one.job, PrebuiltJob)), None)
        if not (wheel and wanted) or _meets(wheel, wanted.requirement):
            return ""
        held = str(_version_of(wheel) or wheel)
        asked = wanted.requirement.partition("==")[2]
    return f"torch {section.strategy} {held} is locked, and {choice.strategy} {asked} is asked for"


def _meets(wheel: str, requirement: str) -> bool:
    """With the local part of the version where one is asked for."""
    version = _version_of(wheel)
    return version is not None and Requirement(requirement).specifier.contains(
        version, prereleases=True
    )


def _version_of(wheel: str) -> Version | None:
    """None for a name that no wheel has: somebody wrote it by hand."""
    try:
        return parse_wheel_filename(wheel)[1]
    except InvalidWheelFilename:
        return None


def _release(choice: Choice) -> str:
    return choice.torch.partition("+")[0]


def _job(job: Any, section: Profile, *, torch: bool) -> Any:
    """The job with what is locked for it; None where that is nothing."""
    match job:
        case DepsJob() if not _unmet(job, section):
            return replace(job, locked=section.packages, locked_toolkit=section.toolkit)
        case PrebuiltJob() if torch:
            own = section.torch
            return replace(job, locked=own.packages, locked_sha256=own.sha256)
        case BuiltJob() if torch:
            return replace(job, locked=section.torch.packages)
        case SourceJob() if torch and not _other_source(job, section.torch):
            own = section.torch
            return replace(job, commit=own.commit, sha256=job.sha256 or own.sha256 or None)
        case ExtensionJob():
            return _extension(job, section.extensions.get(job.name), torch=torch)
    return None


def _extension(job: ExtensionJob, made: Made | None, *, torch: bool) -> ExtensionJob | None:
    if made is None or _other_made(job, made) or (job.pinned and not torch):
        return None
    return replace(
        job,
        commit=made.commit,
        locked_sha256=made.sha256,
        locked=made.packages,
        locked_requires=made.requires,
    )


def _differences(plan: Plan, section: Profile, choice: Choice) -> Iterator[str]:
    if torch := _other_torch(plan, section, choice):
        yield torch
    listed = set()
    for stage in plan.stages:
        match stage.job:
            case DepsJob() if unmet := _unmet(stage.job, section):
                yield unmet
            case SourceJob() if not torch and (other := _other_source(stage.job, section.torch)):
                yield other
            case ExtensionJob():
                listed.add(stage.job.name)
                yield from _of_extension(stage.job, section)
    if gone := sorted(section.extensions.keys() - listed):
        yield f"{', '.join(gone)} is locked, and the settings do not list it"


def _of_extension(job: ExtensionJob, section: Profile) -> Iterator[str]:
    made = section.extensions.get(job.name)
    if made is None:
        yield f"{job.name} is not in it"
    elif other := _other_made(job, made):
        yield other


def _unmet(job: DepsJob, section: Profile) -> str:
    """The first requirement of the environment that what is locked for it does not meet."""
    held = {**versions(section.toolkit), **versions(section.packages)}
    wanted = job.tools if job.existing else (*job.tools, *job.toolkit_packages)
    for text in wanted:
        asked = Requirement(text)
        version = held.get(canonicalize_name(asked.name))
        if version is None and not job.existing:  # it may have been there already
            return f"{asked} is asked for, and no {asked.name} is locked"
        if version is not None and not asked.specifier.contains(version, prereleases=True):
            return f"{asked.name} {version} is locked, and {asked} is asked for"
    return ""


def _other_source(job: SourceJob, made: Made) -> str:
    match job.kind:
        case "git":
            return _unlike("PyTorch's tree", (made.git, made.ref), (job.location, job.ref))
        case "tarball":
            return _unlike("PyTorch's tree", (made.tarball,), (job.location,))
    return "" if made.path else "a tree of git or a tarball is locked, and source.path is set"


def _other_made(job: ExtensionJob, made: Made) -> str:
    match job.kind:
        case "git":
            return _unlike(job.name, (made.git, made.ref), (job.location, job.ref))
        case "sdist":
            return _unlike(job.name, (made.sdist,), (job.location,))
        case "path":
            return "" if made.path else _unlike(job.name, (made.git or made.sdist,), ("a folder",))
    return "" if _is_wheel_of(job, made) else _unlike(job.name, (made.wheel,), (job.location,))


def _is_wheel_of(job: ExtensionJob, made: Made) -> bool:
    """Which one a tree is pinned to is known when the tree is there."""
    return bool(made.wheel) and _meets(made.wheel, job.location)


def _unlike(what: str, held: Iterable[str], asked: Iterable[str]) -> str:
    before, now = tuple(held), tuple(map(redact, asked))
    if before == now:
        return ""
    told = " at ".join(filter(None, before)) or "nothing of the kind"
    return f"of {what} {told} is locked, and {' at '.join(now)} is asked for"
