"""Resolve which packages to install into the user's environment, and unpack them.

One program does both (pip only if uv is missing), because uv and pip rank indexes differently.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import get_args

from packaging.requirements import Requirement
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from tasks.core.errors import BadArtifactError, TorchyardError
from tasks.core.model import Artifact
from tasks.core.pip_requirements import is_requirement_applicable, parse_requirements
from tasks.settings.values import CompanionName
from tasks.stages.extensions.model import BuiltExtension
from tasks.stages.install.install_journal_io import InstallRecord
from tasks.stages.install.model import InstallJob
from tasks.stages.install.target_environment_io import (
    EnvironmentInfo,
    TargetEnvironment,
    compute_record_digest,
)
from tasks.stages.install.target_interpreter_io import SETTING_KEY as KEY
from tasks.stages.install.target_interpreter_io import build_refusal
from tasks.stages.wheel.model import Wheel
from tasks.system import files, manifests, shell
from tasks.system.network import index_client, package_indexes
from tasks.system.output import print_warning, show_progress
from tasks.wheels import wheel_archive_io, wheel_requirements_io


@dataclass(frozen=True)
class SelectedWheel:
    """A wheel to install. `name` is normalized, `size` is the unpacked size in bytes."""

    path: Path
    name: str
    version: str
    tags: frozenset[Tag]
    sha256: str
    size: int


def select_wheels(job: InstallJob) -> tuple[SelectedWheel, ...]:
    """Return the wheels to install, torch first. Raises `BadArtifactError` if one is missing."""
    torch = manifests.read_manifest(job.wheel, Wheel)
    if torch.artifact is None:
        raise BadArtifactError(
            "no wheel of torch was built or downloaded for this profile", location=str(job.wheel)
        )
    wheels = [_find_wheel(job, torch.artifact, "wheel")]
    for name, manifest in job.extensions.items():
        if job.partial and not Path(manifest).is_file():
            print_warning(f"{name} was not built; only the others are installed (install.partial)")
            continue
        built = manifests.read_manifest(manifest, BuiltExtension)
        if built.artifact:
            wheels.append(_find_wheel(job, built.artifact, f"extensions:{name}"))
        else:
            print_warning(f"{name} was not built and is not installed: {built.status}")
    return tuple(wheels)


def _find_wheel(job: InstallJob, artifact: Artifact, stage: str) -> SelectedWheel:
    """Find the wheel of `artifact` by its digest, because several may have the same file name."""
    for path in sorted(Path(job.wheelhouse).rglob(artifact.name)):
        if path.stat().st_size == artifact.size and files.read_artifact(path) == artifact:
            break
    else:
        message = f"the wheel {artifact.name} with sha256 {artifact.sha256[:12]}… is missing"
        hint = f"run: doit clean {stage}, then: doit build, which builds the wheel again"
        raise BadArtifactError(message, location=str(job.wheelhouse), hint=hint)
    try:
        name, version, _, tags = parse_wheel_filename(path.name)
    except InvalidWheelFilename as error:
        raise BadArtifactError(str(error), location=str(path)) from error
    with wheel_archive_io.open_wheel(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    return SelectedWheel(path, name, str(version), tags, artifact.sha256, size)


def require_compatible_target(target: TargetEnvironment, wheels: Iterable[SelectedWheel]) -> None:
    """Raise `TorchyardError` if `target` forbids installs, is read-only, or rejects a wheel."""
    info = target.info
    if info.managed:
        message = f"{target.python} is managed by the system, which forbids installs"
        raise build_refusal(message, info.managed)
    for wheel in wheels:
        if not {str(tag) for tag in wheel.tags} & set(info.tags):
            tags, python = ", ".join(sorted(map(str, wheel.tags))), target.python
            message = f"{wheel.path.name} is for {tags}, but {python} requires {info.tags[0]}"
            built_for = f"set python: {python}, so that the wheels are built for it"
            hint = f"{built_for}, or set {KEY} to another Python"
            raise BadArtifactError(f"{message}; nothing was changed", location=KEY, hint=hint)
    for folder in (info.purelib, info.platlib, info.scripts):
        if Path(folder).is_dir() and not os.access(folder, os.W_OK | os.X_OK):
            raise build_refusal("you cannot write to this folder", folder)


def list_install_warnings(target: TargetEnvironment, coming: Mapping[str, str]) -> Iterator[str]:
    """Yield a warning for each problem that an install of `coming` (name → version) can cause."""
    meta = target.prefix / "conda-meta"
    has_conda_torch = any(meta.glob("pytorch-[0-9]*.json")) or any(meta.glob("libtorch-*.json"))
    for one in target.info.distributions:
        if one.name.lower() == "torch" and (one.installer == "conda" or has_conda_torch):
            yield (
                f"conda does not know that its torch {one.version} is replaced by another torch: "
                "conda install and conda update may mix the files of both. To remove conda's "
                "torch, run: doit restore --yes, conda remove --force pytorch, doit build"
            )
    if target.info.user_torch:
        first = f"{target.python} imports {target.info.user_torch} before the torch in"
        hint = f"Run: {target.python} -m pip uninstall torch, or set PYTHONNOUSERSITE=1"
        yield f"{first} {target.prefix}. {hint}"
    yield from describe_conflicts(target.info, coming)


def describe_conflicts(info: EnvironmentInfo, coming: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each kept package that conflicts with a package version in `coming`."""
    for one in sorted(info.distributions, key=lambda one: one.name):
        package = canonicalize_name(one.name)
        for requirement in parse_requirements(() if package in coming else one.requires):
            version = coming.get(canonicalize_name(requirement.name))
            if version is None or not is_requirement_applicable(requirement, info.markers):
                continue
            requirement.marker = None  # the marker was evaluated above
            if not requirement.specifier.contains(version, prereleases=True):
                hint = f"; if it fails to import, set companions: [{one.name}] in config/local.yaml"
                yield (
                    f"{one.name} {one.version} requires {requirement}, but {version} is installed"
                    f"{hint if package in get_args(CompanionName) else ''}"
                )


def require_expected_packages(
    before: TargetEnvironment, after: TargetEnvironment, coming: Mapping[str, str]
) -> None:
    """Raise `BadArtifactError` unless the install changed exactly the packages in `coming`."""
    expected, installed = {**before.list_versions(), **coming}, after.list_versions()
    differences = [
        f"{n} {installed.get(n, 'is missing')} (expected: {expected.get(n, 'not installed')})"
        for n in sorted(expected.keys() | installed.keys())
        if installed.get(n) != expected.get(n)
    ]
    if differences:
        message = f"the installed packages are not the expected ones: {'; '.join(differences)}"
        message += "; the previous packages were restored"
        hint = "stop other installs into this environment, then run the same command again"
        raise BadArtifactError(message, location=after.python, hint=hint)


# `- name==1.0` is the replaced version
_DRY_RUN_LINE = re.compile(r"^ [+~] ([A-Za-z0-9][\w.-]*)==(\S+)")


@dataclass(frozen=True)
class Installer:
    """An installer that runs `uv` or, if that is `None`, the pip of the interpreter `pip`."""

    job: InstallJob
    target: TargetEnvironment
    uv: str | None
    pip: str
    constraints: tuple[str, ...]

    def run_install(self, what: str, *options: str) -> list[str]:
        """Run the install command for the step `what`, and return the lines that it printed."""
        if self.uv:
            argv = [self.uv, "pip", "install", "--no-progress", "--color", "never"]
            argv += ["--python", self.target.python]
        else:
            argv = [self.pip, "-m", "pip", "--python", self.target.python, "install"]
            argv += ["--disable-pip-version-check", "--no-input", "--progress-bar", "off"]
        # With UV_LINK_MODE=symlink, installed files would be part of uv's cache, which users clean
        env = shell.build_installer_env()
        env = {n: v for n, v in env.items() if (n, v) != ("UV_LINK_MODE", "symlink")}
        argv += [*package_indexes.build_extra_index_options(self.job.index), *options]
        lines: list[str] = []
        index_client.run_index_client(argv, what, self.job.log, env, lines.append)
        return lines

    def unpack_wheels(self, staged: PurePath, requirements: Sequence[str]) -> None:
        """Install the requirements, without dependencies, into the empty prefix `staged`."""
        # no bytecode, which would contain the path of the staging folder
        pip_options = ("--no-compile", "--ignore-installed", "--no-warn-script-location")
        options = ("--no-compile-bytecode",) if self.uv else pip_options
        prefix = ("--prefix", str(staged), "--no-deps")
        self.run_install("unpack the packages", *prefix, *options, *requirements)


def resolve_requirements(
    installer: Installer, requirements: Sequence[str], reinstalled: Sequence[str]
) -> Mapping[str, str]:
    """Return the versions of all packages that would be installed or replaced, by name.

    `requirements` can be paths of wheels. The packages in `reinstalled` are always replaced.
    """
    folder, prefix = Path(installer.job.replaced), installer.target.prefix
    constraints = folder / "constraints.txt"
    files.write_atomic(constraints, "".join(f"{pin}\n" for pin in installer.constraints))
    step_name = f"resolve what torch requires in {prefix}"
    options = ("--dry-run", "-c", str(constraints))
    if not installer.uv:
        report = folder / "report.json"
        installer.run_install(step_name, *options, "--report", str(report), *requirements)
        items = json.loads(report.read_text(encoding="utf-8"))["install"]
        metadata = (item["metadata"] for item in items)
        return {canonicalize_name(one["name"]): one["version"] for one in metadata}
    forced = (part for name in reinstalled for part in ("--reinstall-package", name))
    lock = prefix / ".lock"  # uv leaves an empty lock file in an environment
    had_lock = lock.exists()
    try:
        lines = installer.run_install(step_name, *options, *forced, *requirements)
    finally:
        if not had_lock:
            lock.unlink(missing_ok=True)
    resolved = filter(None, map(_DRY_RUN_LINE.match, lines))
    return {canonicalize_name(match[1]): match[2] for match in resolved}


def resolve_install(
    installer: Installer, wheels: Sequence[SelectedWheel], record: InstallRecord | None
) -> Mapping[str, str]:
    """Return the versions to install by name. Requirements of extensions replace no package."""
    target, built = installer.target, {one.name for one in wheels}
    new_wheels = {one.name: one.version for one in wheels if not _is_installed(one, record)}
    torch, *others = wheels
    requirement, reinstalled = f"{torch.name}=={torch.version}", []
    if torch.name in new_wheels:
        requirement, reinstalled = str(torch.path), [torch.name]
    new = [one for one in others if one.name in new_wheels]
    extra = [text for one in new for text in _list_missing_requirements(one, target, built)]
    show_progress(f"resolving what torch requires in {target.prefix}")
    needs = resolve_requirements(installer, [requirement], reinstalled)
    if extra:
        pins = list(installer.constraints)
        for name, version in {**target.list_versions(), **needs}.items():
            with suppress(InvalidVersion):  # installers reject such a version
                if name not in built:  # built wheels replace the others
                    pins.append(f"{name}=={Version(version)}")
        pinned = replace(installer, constraints=tuple(pins))
        try:
            needs = resolve_requirements(pinned, [requirement, *extra], reinstalled)
        except TorchyardError as error:
            missing = ", ".join(extra)
            print_warning(f"cannot install {missing}, which extensions require: {error.message}")
    return {**{name: version for name, version in needs.items() if name not in built}, **new_wheels}


def _is_installed(wheel: SelectedWheel, record: InstallRecord | None) -> bool:
    """Return True if `record` contains this wheel, and the RECORD of the package is unchanged."""
    part = record.parts.get(wheel.name) if record else None
    if not record or not part or part.wheel != wheel.sha256:
        return False
    return compute_record_digest(Path(record.prefix, part.path)) == part.record


def _list_missing_requirements(
    wheel: SelectedWheel, target: TargetEnvironment, built: set[str]
) -> Iterator[str]:
    """Yield the missing requirements of a wheel; warn if an installed one has a wrong version."""
    installed = target.list_versions()
    requirements = wheel_requirements_io.read_wheel_requirements(wheel.path, target.info.version)
    for requirement in requirements:
        name = canonicalize_name(Requirement(requirement).name)
        if name in built:
            continue
        if name not in installed:
            yield requirement
        elif wheel_requirements_io.find_missing_requirements([requirement], installed):
            kept = f"{name} {installed[name]}"
            print_warning(f"{wheel.name} requires {requirement}, but {kept} stays installed")
