"""Parse, write and compare sections of torchyard.lock (one for each profile); pin plans to them.

A pinned job uses the locked inputs. Pinning alone makes no stage out of date.
"""

import re
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any, Literal

import yaml
from msgspec import Meta, ValidationError, convert, structs
from packaging.requirements import Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from tasks.core.deps_model import DepsJob
from tasks.core.errors import SettingsError, redact_secrets
from tasks.core.model import Plan
from tasks.core.pip_requirements import parse_pinned_versions
from tasks.core.project import LOCK_NAME
from tasks.core.resolution import Resolution
from tasks.knowledge.torch_releases import normalize_machine
from tasks.settings import values
from tasks.settings.setting_errors import find_key_location, find_problems
from tasks.settings.values import StrictModel, dump_section
from tasks.settings.yaml_tree import parse_yaml_tree, split_tree
from tasks.stages.extensions.model import ExtensionJob
from tasks.stages.source.model import SourceJob
from tasks.stages.wheel.model import BuiltJob, PrebuiltJob

Sha256 = Annotated[str, Meta(pattern=values.SHA256_PATTERN)]
Commit = Annotated[str, Meta(pattern=r"^[0-9a-f]{40,64}\Z")]
Packages = dict[Annotated[str, Meta(pattern=values.SDIST_PATTERN)], tuple[Sha256, ...]]


class LockedInputs(StrictModel, frozen=True):
    """The locked inputs of torch, an extension or a companion package.

    Exactly one of `git`, `sdist`, `wheel`, `tarball` and `path` is set. The content of `path` is
    not locked. `requires` are the build dependencies, `packages` the runtime dependencies.
    """

    git: str = ""
    ref: str = ""
    """The requested ref; `commit` is the commit that it resolved to."""
    commit: Annotated[str, Meta(pattern=r"^([0-9a-f]{40,64})?\Z")] = ""
    submodules: dict[str, Commit] = {}
    sdist: str = ""
    wheel: str = ""
    """The file name of the wheel."""
    tarball: str = ""
    path: str = ""
    sha256: Annotated[str, Meta(pattern=r"^([0-9a-f]{64})?\Z")] = ""
    patches: tuple[Sha256, ...] = ()
    requires: Packages = {}
    packages: Packages = {}


class LockSection(StrictModel, frozen=True):
    """The locked inputs of one profile.

    The locked files are for `python` (such as 3.12) and `platform` (such as `linux x86_64`).
    """

    python: str
    platform: str
    strategy: Literal["source", "prebuilt", "existing"]
    release: str
    """The release of torch, without its local part."""
    facts: tuple[str, ...] = ()
    """Where facts came from that were not recorded. For information: it is not compared."""
    torch: LockedInputs = LockedInputs()
    extensions: dict[str, LockedInputs] = {}
    """The extensions and companion packages by name."""
    packages: Packages = {}
    """The other packages of the build environment, not required by torch or the extensions."""
    toolkit: Packages = {}
    """Packages in a separate folder: cuobjdump, or the CUDA toolkit for an existing torch."""


def merge_kept_extensions(
    now: LockSection, previous: LockSection | None, names: Container[str]
) -> LockSection:
    """Return `now` with the extensions in `names` that only `previous` has."""
    locked = previous.extensions.items() if previous else ()
    retained = {name: inputs for name, inputs in locked if name in names}
    return structs.replace(now, extensions={**retained, **now.extensions})


_FILE_HEADER = f"""\
# {LOCK_NAME}: the commits, files and packages that each profile was built from. The command
# `lock` writes it after a build, `build` uses exactly these again, and `lock --check` shows the
# differences. Commit this file.
"""
_SECTION_KEY = re.compile(r"""^(["']?)(?P<name>[^\s"'#][^"']*?)\1:\s*(#.*)?$""")


def split_sections(text: str) -> dict[str, tuple[int, str]]:
    """Return the line index and the text of each section, by profile."""
    sections: dict[str, tuple[int, str]] = {}
    name = ""
    for number, line in enumerate(text.splitlines(keepends=True)):
        location = f"{LOCK_NAME}:{number + 1}"
        if header := _SECTION_KEY.match(line):
            name = header["name"]
            if name in sections:
                raise _build_lock_error(location, f'there are two sections "{name}"')
            sections[name] = (number, "")
        elif line[0] not in " #\r\n":
            raise _build_lock_error(location, "this line does not begin a section of a profile")
        if name:
            sections[name] = (sections[name][0], sections[name][1] + line)
    return sections


def parse_section(text: str, profile: str) -> LockSection | None:
    """Return the section of a profile, or None if missing. Raises `SettingsError` if invalid."""
    if (section := split_sections(text).get(profile)) is None:
        return None
    number, section_text = section
    tree = parse_yaml_tree("\n" * number + section_text, LOCK_NAME)
    values, _ = split_tree(tree)
    try:
        return convert(values[profile], LockSection)
    except ValidationError as error:
        problem = next(find_problems(values[profile], LockSection, (profile,)))
        message = f"{'.'.join(map(str, problem.keys))}: {problem.message}"
        raise _build_lock_error(find_key_location(problem.keys, tree), message) from error


def replace_section(text: str, profile: str, section: LockSection | None) -> str:
    """Return the lock file's text with the new section of `profile`. None removes the section."""
    sections = {name: lines.rstrip() for name, (_, lines) in split_sections(text).items()}
    sections.pop(profile, None)
    if section:
        fields = {profile: _strip_empty(dump_section(section))}
        options: dict[str, Any] = {"sort_keys": True, "width": 10_000, "allow_unicode": True}
        sections[profile] = yaml.dump(fields, Dumper=_LockDumper, **options).rstrip()
    ordered = [sections[name] for name in sorted(sections)]
    return "\n\n".join([_FILE_HEADER.rstrip(), *ordered]) + "\n"


class _LockDumper(yaml.SafeDumper):
    """A YAML dumper that writes a package and all its digests on one line."""

    def represent_sequence(self, tag: str, sequence: Any, flow_style: bool | None = None) -> Any:
        """Represent every sequence in flow style. PyYAML calls this."""
        return super().represent_sequence(tag, sequence, flow_style=True)


def _strip_empty(value: Any) -> Any:
    """Remove empty entries from a mapping and nested mappings. Return any other value unchanged."""
    if not isinstance(value, dict):
        return value
    stripped = {key: _strip_empty(item) for key, item in value.items()}
    return {key: item for key, item in stripped.items() if item not in ("", {}, [])}


def _build_lock_error(location: str, message: str) -> SettingsError:
    hint = "restore the file from git; or remove the section and run: doit lock; or set lock: false"
    return SettingsError(message, location=location, hint=hint)


_SHORT_LENGTH = 12  # digits shown of a digest or commit


def compare_sections(locked: LockSection, now: LockSection) -> Iterator[str]:
    """Yield a line for each difference: `extensions.toy.commit: 1a2b3c4d5e6f → 0f9e8d7c6b5a`.

    Packages are compared by version, and by digest only if the versions are equal.
    """
    before, after = (structs.replace(section, facts=()) for section in (locked, now))
    yield from _compare_values(dump_section(before), dump_section(after), "")


def _compare_values(before: Any, after: Any, key: str) -> Iterator[str]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        if key.rpartition(".")[2] in ("packages", "requires", "toolkit"):
            yield from _compare_packages(before, after, key)
            return
        for name in sorted({*before, *after}):
            dotted = f"{key}.{name}" if key else name
            if name not in after:
                yield f"{dotted}: locked, but not built"
            elif name not in before:
                yield f"{dotted}: built, but not locked"
            else:
                yield from _compare_values(before[name], after[name], dotted)
    elif before != after:
        yield f"{key}: {_shorten_value(before)} → {_shorten_value(after)}"


def _compare_packages(before: Any, after: Any, key: str) -> Iterator[str]:
    old, new = (dict(pin.split("==", 1) for pin in pins) for pins in (before, after))
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            yield f"{key}.{name}: {old.get(name, 'not locked')} → {new.get(name, 'not installed')}"
        elif not set(after[f"{name}=={new[name]}"]) <= set(before[f"{name}=={old[name]}"]):
            yield f"{key}.{name}: {old[name]} has another sha256 than the locked one"


def _shorten_value(value: Any) -> str:
    text = redact_secrets(str(value)) or "none"
    return text[:_SHORT_LENGTH] if re.fullmatch("[0-9a-f]{40,}", text) else text


def pin_plan(plan: Plan, section: LockSection, choice: Resolution) -> Plan:
    """Return the plan with the locked inputs pinned in its jobs.

    An input that differs from the lock is not pinned, and the plan gets a warning about it.
    """
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
    """Return the fields to pin in the job, and how the job differs from the lock ("" if equal).

    If `torch` is False, torch differs from the lock, and the jobs of torch are not pinned.
    """
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
    """Describe the first requirement that the locked packages do not meet, or return ""."""
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
    """Return how the source `what` of the job differs from the lock, or "" if it does not."""
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
