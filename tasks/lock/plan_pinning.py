"""Pin a plan to a section of torchyard.lock, part by part.

A part whose settings changed since is resolved again, with a warning. The pins are in the jobs and
not in the fingerprints: a build that already matches them runs no stage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from tasks.core.deps_model import DepsJob
from tasks.core.errors import redact_secrets
from tasks.core.model import Plan
from tasks.core.pip_requirements import parse_pinned_versions
from tasks.core.resolution import Resolution
from tasks.knowledge.torch_releases import normalize_machine
from tasks.lock.lock_file import LockedInputs, LockSection
from tasks.stages.extensions.model import ExtensionJob
from tasks.stages.source.model import SourceJob
from tasks.stages.wheel.model import BuiltJob, PrebuiltJob


def pin_plan(plan: Plan, section: LockSection, choice: Resolution) -> Plan:
    """Return the plan with the pins in its jobs, and a warning for each pin that is not used."""
    if machine_mismatch := _check_machine(section, choice):
        return replace(plan, warnings=(*plan.warnings, _format_warning(machine_mismatch)))
    is_torch_locked = not _check_torch(plan, section, choice)
    pairs = [(stage, _pin_job(stage.job, section, torch=is_torch_locked)) for stage in plan.stages]
    stages = tuple(replace(stage, job=job) if job else stage for stage, job in pairs)
    warnings = (_format_warning(line) for line in _list_differences(plan, section, choice))
    return replace(plan, stages=stages, warnings=(*plan.warnings, *warnings))


def identify_platform(choice: Resolution) -> tuple[str, str]:
    """Return Python and platform as a lock section names them."""
    return choice.python.minor, f"{choice.system} {normalize_machine(choice.machine)}"


def _format_warning(difference: str) -> str:
    return f"torchyard.lock: {difference}: resolved anew; doit lock writes what comes of it"


def _check_machine(section: LockSection, choice: Resolution) -> str:
    python, platform = identify_platform(choice)
    if (section.python, section.platform) == (python, platform):
        return ""
    locked = f"Python {section.python} on {section.platform}"
    return f"this profile is locked for {locked}, and this is Python {python} on {platform}"


def _check_torch(plan: Plan, section: LockSection, choice: Resolution) -> str:
    locked, requested = section.release, _strip_local_version(choice)
    if (section.strategy, locked) == (choice.strategy, requested):
        wheel = section.torch.wheel
        prebuilt_job = next(
            (stage.job for stage in plan.stages if isinstance(stage.job, PrebuiltJob)), None
        )
        if not (wheel and prebuilt_job) or _meets_requirement(wheel, prebuilt_job.requirement):
            return ""
        locked = str(_parse_wheel_version(wheel) or wheel)
        requested = prebuilt_job.requirement.partition("==")[2]
    return (
        f"torch {section.strategy} {locked} is locked, "
        f"and {choice.strategy} {requested} is asked for"
    )


def _meets_requirement(wheel: str, requirement: str) -> bool:
    """Return True if the wheel's version meets the requirement, also its local part."""
    version = _parse_wheel_version(wheel)
    return version is not None and Requirement(requirement).specifier.contains(
        version, prereleases=True
    )


def _parse_wheel_version(wheel: str) -> Version | None:
    """Return the version in a wheel's file name, None for an invalid name (edited by hand)."""
    try:
        return parse_wheel_filename(wheel)[1]
    except InvalidWheelFilename:
        return None


def _strip_local_version(choice: Resolution) -> str:
    return choice.torch.partition("+")[0]


def _pin_job(job: Any, section: LockSection, *, torch: bool) -> Any:
    """Return the job with its pins, None if it has none."""
    match job:
        case DepsJob() if not _find_unmet_requirement(job, section):
            return replace(job, locked=section.packages, locked_toolkit=section.toolkit)
        case PrebuiltJob() if torch:
            locked_torch = section.torch
            return replace(job, locked=locked_torch.packages, locked_sha256=locked_torch.sha256)
        case BuiltJob() if torch:
            return replace(job, locked=section.torch.packages)
        case SourceJob() if torch and not _check_source(job, section.torch):
            locked_torch = section.torch
            return replace(
                job, commit=locked_torch.commit, sha256=job.sha256 or locked_torch.sha256 or None
            )
        case ExtensionJob():
            return _pin_extension(job, section.extensions.get(job.name), torch=torch)
    return None


def _pin_extension(
    job: ExtensionJob, made: LockedInputs | None, *, torch: bool
) -> ExtensionJob | None:
    if made is None or _check_extension_source(job, made) or (job.pinned and not torch):
        return None
    return replace(
        job,
        commit=made.commit,
        locked_sha256=made.sha256,
        locked=made.packages,
        locked_requires=made.requires,
    )


def _list_differences(plan: Plan, section: LockSection, choice: Resolution) -> Iterator[str]:
    if torch := _check_torch(plan, section, choice):
        yield torch
    extension_names = set()
    for stage in plan.stages:
        match stage.job:
            case DepsJob() if unmet_requirement := _find_unmet_requirement(stage.job, section):
                yield unmet_requirement
            case SourceJob() if not torch and (
                source_mismatch := _check_source(stage.job, section.torch)
            ):
                yield source_mismatch
            case ExtensionJob():
                extension_names.add(stage.job.name)
                yield from _list_extension_differences(stage.job, section)
    if missing_names := sorted(section.extensions.keys() - extension_names):
        yield f"{', '.join(missing_names)} is locked, and the settings do not list it"


def _list_extension_differences(job: ExtensionJob, section: LockSection) -> Iterator[str]:
    locked = section.extensions.get(job.name)
    if locked is None:
        yield f"{job.name} is not in it"
    elif mismatch := _check_extension_source(job, locked):
        yield mismatch


def _find_unmet_requirement(job: DepsJob, section: LockSection) -> str:
    """Describe the first requirement of the environment that its locked packages do not meet."""
    locked_versions = {
        **parse_pinned_versions(section.toolkit),
        **parse_pinned_versions(section.packages),
    }
    requirements = job.tools if job.existing else (*job.tools, *job.toolkit_packages)
    for text in requirements:
        requirement = Requirement(text)
        version = locked_versions.get(canonicalize_name(requirement.name))
        if version is None and not job.existing:  # an existing environment may have it already
            return f"{requirement} is asked for, and no {requirement.name} is locked"
        if version is not None and not requirement.specifier.contains(version, prereleases=True):
            return f"{requirement.name} {version} is locked, and {requirement} is asked for"
    return ""


def _check_source(job: SourceJob, made: LockedInputs) -> str:
    match job.kind:
        case "git":
            return _format_mismatch("PyTorch's tree", (made.git, made.ref), (job.location, job.ref))
        case "tarball":
            return _format_mismatch("PyTorch's tree", (made.tarball,), (job.location,))
    return "" if made.path else "a tree of git or a tarball is locked, and source.path is set"


def _check_extension_source(job: ExtensionJob, made: LockedInputs) -> str:
    match job.kind:
        case "git":
            return _format_mismatch(job.name, (made.git, made.ref), (job.location, job.ref))
        case "sdist":
            return _format_mismatch(job.name, (made.sdist,), (job.location,))
        case "path":
            return (
                ""
                if made.path
                else _format_mismatch(job.name, (made.git or made.sdist,), ("a folder",))
            )
    return (
        ""
        if _is_locked_wheel(job, made)
        else _format_mismatch(job.name, (made.wheel,), (job.location,))
    )


def _is_locked_wheel(job: ExtensionJob, made: LockedInputs) -> bool:
    """Return True if the locked wheel meets the requirement.

    The version that a source tree pins is only known once the tree is present.
    """
    return bool(made.wheel) and _meets_requirement(made.wheel, job.location)


def _format_mismatch(what: str, held: Iterable[str], asked: Iterable[str]) -> str:
    locked, requested = tuple(held), tuple(map(redact_secrets, asked))
    if locked == requested:
        return ""
    description = " at ".join(filter(None, locked)) or "nothing of the kind"
    return f"of {what} {description} is locked, and {' at '.join(requested)} is asked for"
