"""Pin a plan to a section of torchyard.lock. Changed inputs are resolved again, with a warning.

Pins are part of the jobs but not of the fingerprints: pinning alone makes no stage stale.
"""

from contextlib import suppress
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
    """Return the plan with the pins in its jobs, and a warning for each unused pin."""
    python, platform = identify_platform(choice)
    if (section.python, section.platform) != (python, platform):
        locked = f"this profile is locked for Python {section.python} on {section.platform}"
        mismatch = f"{locked}, but this is Python {python} on {platform}"
        return replace(plan, warnings=(*plan.warnings, _format_warning(mismatch)))
    torch_mismatch = _check_torch(plan, section, choice)
    stages, differences = [], [torch_mismatch]
    for stage in plan.stages:
        pins, mismatch = _list_pins(stage.job, section, torch=not torch_mismatch)
        stages.append(replace(stage, job=replace(stage.job, **pins)) if pins else stage)
        differences.append(mismatch)
    extension_names = {stage.job.name for stage in plan.find_stages("extensions")}
    if missing_names := sorted(section.extensions.keys() - extension_names):
        differences.append(f"{', '.join(missing_names)} is locked, but not in the settings")
    warnings = (_format_warning(difference) for difference in differences if difference)
    return replace(plan, stages=tuple(stages), warnings=(*plan.warnings, *warnings))


def identify_platform(choice: Resolution) -> tuple[str, str]:
    """Return the Python and the platform as in a lock section: ("3.12", "linux x86_64")."""
    return choice.python.minor, f"{choice.system} {normalize_machine(choice.machine)}"


def _format_warning(difference: str) -> str:
    return f"torchyard.lock: {difference}: resolved again; to lock the result, run: doit lock"


def _check_torch(plan: Plan, section: LockSection, choice: Resolution) -> str:
    locked, requested = section.release, choice.torch.partition("+")[0]
    if (section.strategy, locked) == (choice.strategy, requested):
        wheel = section.torch.wheel
        jobs = (stage.job for stage in plan.stages)
        prebuilt_job = next((job for job in jobs if isinstance(job, PrebuiltJob)), None)
        if not (wheel and prebuilt_job) or _meets_requirement(wheel, prebuilt_job.requirement):
            return ""
        locked = str(_parse_wheel_version(wheel) or wheel)
        requested = prebuilt_job.requirement.partition("==")[2]
    required = f"{choice.strategy} {requested} is required"
    return f"torch {section.strategy} {locked} is locked, but {required}"


def _meets_requirement(wheel: str, requirement: str) -> bool:
    """Return True if the version in a wheel's file name meets the requirement."""
    version, specifier = _parse_wheel_version(wheel), Requirement(requirement).specifier
    return version is not None and specifier.contains(version, prereleases=True)


def _parse_wheel_version(wheel: str) -> Version | None:
    """Return the version in a wheel's file name, None if the name is invalid."""
    with suppress(InvalidWheelFilename):
        return parse_wheel_filename(wheel)[1]
    return None


def _list_pins(job: Any, section: LockSection, *, torch: bool) -> tuple[dict[str, Any], str]:
    """Return the job's fields to pin, and the difference that prevents pinning ("" if none)."""
    pins: dict[str, Any] = {}
    locked, mismatch = section.torch, ""
    match job:
        case DepsJob():
            mismatch = _find_unmet_requirement(job, section)
            pins = {"locked": section.packages, "locked_toolkit": section.toolkit}
        case PrebuiltJob() if torch:
            pins = {"locked": locked.packages, "locked_sha256": locked.sha256}
        case BuiltJob() if torch:
            pins = {"locked": locked.packages}
        case SourceJob() if torch:
            mismatch = _check_source(job, locked, "PyTorch's tree")
            pins = {"commit": locked.commit, "sha256": job.sha256 or locked.sha256 or None}
        case ExtensionJob() if job.name not in section.extensions:
            mismatch = f"{job.name} is not locked"
        case ExtensionJob():
            locked = section.extensions[job.name]
            mismatch = _check_source(job, locked, job.name)
            sources = {"commit": locked.commit, "locked_sha256": locked.sha256}
            packages = {"locked": locked.packages, "locked_requires": locked.requires}
            pins = {**sources, **packages} if torch or not job.pinned else {}
    return {} if mismatch else pins, mismatch


def _find_unmet_requirement(job: DepsJob, section: LockSection) -> str:
    """Describe the first requirement that the locked packages do not meet, "" if none exists."""
    locked_versions = parse_pinned_versions({**section.toolkit, **section.packages})
    requirements = job.tools if job.existing else (*job.tools, *job.toolkit_packages)
    for text in requirements:
        requirement = Requirement(text)
        version = locked_versions.get(canonicalize_name(requirement.name))
        if version is None and not job.existing:  # an existing environment may have it already
            return f"{requirement} is required, but no {requirement.name} is locked"
        if version is not None and not requirement.specifier.contains(version, prereleases=True):
            return f"{requirement.name} {version} is locked, but {requirement} is required"
    return ""


def _check_source(job: SourceJob | ExtensionJob, locked: LockedInputs, what: str) -> str:
    """Return how the locked source differs from the job's source, "" if it does not."""
    match job.kind:
        case "git":
            return _format_mismatch(what, (locked.git, locked.ref), (job.location, job.ref))
        case "tarball" | "sdist" as kind:
            return _format_mismatch(what, (getattr(locked, kind),), (job.location,))
        case "path":
            is_same, source = bool(locked.path), locked.git or locked.sdist or locked.tarball
            requested = "source.path" if isinstance(job, SourceJob) else "a folder"
        case _:
            # The requirement may change when a source tree is present, which pins a version
            is_same = bool(locked.wheel) and _meets_requirement(locked.wheel, job.location)
            source, requested = locked.wheel, job.location
    return "" if is_same else _format_mismatch(what, (source,), (requested,))


def _format_mismatch(what: str, locked: tuple[str, ...], requested: tuple[str, ...]) -> str:
    required = tuple(map(redact_secrets, requested))
    if locked == required:
        return ""
    source = " at ".join(filter(None, locked)) or "another kind of source"
    return f"{source} is locked for {what}, but {' at '.join(required)} is required"
