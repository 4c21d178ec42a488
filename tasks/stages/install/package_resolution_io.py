"""Resolve what an installer would install into the user's environment, without installing.

uv resolves, or pip if uv cannot run. The same tool unpacks the packages later, since the two do not
search indexes in the same order.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
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
    Distribution,
    EnvironmentInfo,
    TargetEnvironment,
)
from tasks.stages.install.target_files_io import compute_record_digest
from tasks.stages.install.target_interpreter_io import (
    SETTING_KEY,
    VENV_HINT,
    build_unwritable_error,
)
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
    """Return the wheels to install, torch's first.

    Raises `BadArtifactError` if one is missing in the wheelhouse.
    """
    torch = manifests.read_manifest(job.wheel, Wheel)
    if torch.artifact is None:
        raise BadArtifactError("this torch came without a wheel", location=str(job.wheel))
    return (_find_wheel(job, torch.artifact, "wheel"), *_select_extension_wheels(job))


def _select_extension_wheels(job: InstallJob) -> Iterator[SelectedWheel]:
    for name, manifest in job.extensions.items():
        if job.partial and not Path(manifest).is_file():
            print_warning(
                f"{name} was not built; the others are installed without it (install.partial)"
            )
            continue
        built = manifests.read_manifest(manifest, BuiltExtension)
        if built.artifact:
            yield _find_wheel(job, built.artifact, f"extensions:{name}")
        else:
            print_warning(f"{name} was not built, and so is not installed: {built.status}")


def _find_wheel(job: InstallJob, artifact: Artifact, stage: str) -> SelectedWheel:
    """Return the wheel with this name and digest in the wheelhouse.

    The name is not enough: extensions are built for several versions of torch.
    """
    for path in sorted(Path(job.wheelhouse).rglob(artifact.name)):
        if path.stat().st_size == artifact.size and files.read_artifact(path) == artifact:
            return _read_wheel(path, artifact)
    raise BadArtifactError(
        f"there is no {artifact.name} with the sha256 {artifact.sha256[:12]}…, which was built",
        location=str(job.wheelhouse),
        hint=f"doit clean {stage}, then doit build: it is then put there again",
    )


def _read_wheel(path: Path, artifact: Artifact) -> SelectedWheel:
    try:
        name, version, _, tags = parse_wheel_filename(path.name)
    except InvalidWheelFilename as error:
        raise BadArtifactError(str(error), location=str(path)) from error
    with wheel_archive_io.open_wheel(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    return SelectedWheel(path, name, str(version), tags, artifact.sha256, size)


_COMPANION_HINT = "it may not import: companions: [{}] in config/local.yaml brings the one for it"


def require_compatible_target(target: TargetEnvironment, wheels: Iterable[SelectedWheel]) -> None:
    """Raise `TorchyardError` for problems that are known before a file is written."""
    info = target.info
    if info.managed:
        raise TorchyardError(
            f"{target.python} is managed by the system, which says that nobody else installs "
            "there; nothing was changed",
            location=info.managed,
            hint=VENV_HINT,
        )
    for wheel in wheels:
        if not {str(tag) for tag in wheel.tags} & set(info.tags):
            raise build_unfit_error(target, wheel)
    for folder in (info.purelib, info.platlib, info.scripts):
        if Path(folder).is_dir() and not os.access(folder, os.W_OK | os.X_OK):
            raise build_unwritable_error(folder)


def build_unfit_error(target: TargetEnvironment, wheel: SelectedWheel) -> BadArtifactError:
    """Return the error for a wheel for another Python, ABI or platform."""
    tag_names = ", ".join(sorted(map(str, wheel.tags)))
    return BadArtifactError(
        f"{wheel.path.name} is for {tag_names}, and {target.python} takes {target.info.tags[0]}; "
        "nothing was changed",
        location=SETTING_KEY,
        hint=f"set python: {target.python}, so that wheels are made for it, or name another one",
    )


def list_install_warnings(target: TargetEnvironment, coming: Mapping[str, str]) -> Iterator[str]:
    """Yield warnings for an install of `coming` (normalized name → version)."""
    torch = target.list_installed().get("torch")
    if torch and (torch.installer == "conda" or _has_conda_torch(target)):
        yield (
            f"conda put torch {torch.version} there, and is not told of the one that takes its "
            "place: conda install and conda update may mix the two. To have conda let go of it: "
            "put it back (doit restore), conda remove --force pytorch, and build again"
        )
    if target.info.user_torch:
        yield (
            f"{target.info.user_torch} goes before what is installed into {target.prefix}: "
            f"{target.python} -m pip uninstall torch, or set PYTHONNOUSERSITE=1"
        )
    yield from describe_conflicts(target.info, coming)


def _has_conda_torch(target: TargetEnvironment) -> bool:
    meta = target.prefix / "conda-meta"
    return any(meta.glob("pytorch-[0-9]*.json")) or any(meta.glob("libtorch-*.json"))


def describe_conflicts(said: EnvironmentInfo, coming: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each remaining package that requires another version than in `coming`."""
    remaining = [one for one in said.distributions if canonicalize_name(one.name) not in coming]
    for one in sorted(remaining, key=lambda one: one.name):
        for requirement in _find_unmet_requirements(said, one, coming):
            name = canonicalize_name(requirement.name)
            conflict = (
                f"{one.name} {one.version} wants {requirement}, and {coming[name]} is installed"
            )
            yield (
                f"{conflict}; {_COMPANION_HINT.format(one.name)}"
                if _is_companion(one)
                else conflict
            )


def _is_companion(one: Distribution) -> bool:
    return canonicalize_name(one.name) in get_args(CompanionName)


def _find_unmet_requirements(
    said: EnvironmentInfo, one: Distribution, coming: Mapping[str, str]
) -> Iterator[Requirement]:
    for requirement in parse_requirements(one.requires):
        version = coming.get(canonicalize_name(requirement.name))
        if version is None or not is_requirement_applicable(requirement, said.markers):
            continue
        requirement.marker = None  # the marker was evaluated above
        if not requirement.specifier.contains(version, prereleases=True):
            yield requirement


def compare_installed(
    before: TargetEnvironment, after: TargetEnvironment, coming: Mapping[str, str]
) -> Sequence[str]:
    """Return the differences between the expected and the actual distributions.

    Expected are those listed `before`, with `coming` installed. Reads only its arguments.
    """
    expected = {
        name: distribution.version for name, distribution in before.list_installed().items()
    } | dict(coming)
    installed = {
        name: distribution.version for name, distribution in after.list_installed().items()
    }
    names = sorted(expected.keys() | installed.keys())
    return [
        f"{name} {installed.get(name, 'is gone')} (meant: {expected.get(name, 'none')})"
        for name in names
        if installed.get(name) != expected.get(name)
    ]


_DRY_RUN_LINE = re.compile(
    r"^ [+~] ([A-Za-z0-9][\w.-]*)==(\S+)"
)  # `- name==1.0` is the replaced version


@dataclass(frozen=True)
class Installer:
    """The installer that resolves and unpacks for the interpreter `python`.

    `uv` is its path, or None: then it is the pip of the interpreter `pip`. `prefix` is the
    environment, `folder` a managed folder for the installer's files. `index` is used in addition to
    the default one.
    """

    python: str
    prefix: Path
    uv: str | None
    pip: str
    folder: Path
    log: PurePath
    index: str = ""
    constraints: tuple[str, ...] = ()

    def run_command(self, argv: Sequence[str], what: str) -> list[str]:
        """Run the installer and return its output lines. Failures are explained by their kind."""
        lines: list[str] = []
        index_client.run_index_client(
            argv, what, self.log, _build_installer_environment(), lines.append
        )
        return lines

    def build_command(self, *options: str) -> tuple[str, ...]:
        """Return the command for an install with these options."""
        if self.uv:
            first = (self.uv, "pip", "install", "--no-progress", "--color", "never")
            return (
                *first,
                "--python",
                self.python,
                *package_indexes.build_extra_index_options(self.index),
                *options,
            )
        first = (self.pip, "-m", "pip", "--python", self.python, "install")
        quiet = ("--disable-pip-version-check", "--no-input", "--progress-bar", "off")
        return (*first, *quiet, *package_indexes.build_extra_index_options(self.index), *options)


def resolve_requirements(
    by: Installer, wanted: Sequence[str], again: Sequence[str]
) -> Mapping[str, str]:
    """Return normalized name → version of all packages that `wanted` installs or replaces.

    `wanted` are requirements or paths of wheels. Packages in `again` are reinstalled, even if the
    same version is installed.
    """
    constraints = by.folder / "constraints.txt"
    files.write_atomic(constraints, "".join(f"{pin}\n" for pin in by.constraints))
    purpose = "find out what torch needs there"
    options = ("--dry-run", "-c", str(constraints))
    if not by.uv:
        report = by.folder / "report.json"
        by.run_command(by.build_command(*options, "--report", str(report), *wanted), purpose)
        return _parse_pip_report(report)
    forced = (part for name in again for part in ("--reinstall-package", name))
    with _remove_uv_lock(by.prefix):
        lines = by.run_command(by.build_command(*options, *forced, *wanted), purpose)
    resolved = [match.groups() for line in lines if (match := _DRY_RUN_LINE.match(line))]
    return {canonicalize_name(name): version for name, version in resolved}


def _parse_pip_report(report: Path) -> Mapping[str, str]:
    install_items = json.loads(report.read_text(encoding="utf-8"))["install"]
    metadata = [one["metadata"] for one in install_items]
    return {canonicalize_name(one["name"]): one["version"] for one in metadata}


def unpack_wheels(by: Installer, staged: PurePath, wanted: Sequence[str]) -> None:
    """Install exactly `wanted` as if the folder `staged` were the prefix of the environment.

    Scripts and RECORD are the same as they would be in the prefix.
    """
    options = ("--prefix", str(staged), "--no-deps", *_list_unpack_options(by), *wanted)
    by.run_command(by.build_command(*options), "unpack what is to be installed")


def _list_unpack_options(by: Installer) -> tuple[str, ...]:
    """Return the options for unpacking without bytecode, which would name the staging folder."""
    if by.uv:
        return ("--no-compile-bytecode",)
    return ("--no-compile", "--ignore-installed", "--no-warn-script-location")


def _build_installer_environment() -> dict[str, str]:
    """Return the environment without UV_LINK_MODE=symlink.

    With links, the installed files would be part of uv's cache, which the user may clean.
    """
    env = shell.build_installer_env()
    return {n: v for n, v in env.items() if (n, v) != ("UV_LINK_MODE", "symlink")}


@contextmanager
def _remove_uv_lock(prefix: Path) -> Iterator[None]:
    """Remove the empty lock file that uv leaves in an environment that it only inspects."""
    lock = prefix / ".lock"
    was_there = lock.exists()
    try:
        yield
    finally:
        if not was_there:
            lock.unlink(missing_ok=True)


def require_versions(
    found: Mapping[str, str], expected: Mapping[str, str], where: PurePath
) -> None:
    """Raise `TorchyardError` if the unpacked versions differ from the resolved ones."""
    if dict(found) != dict(expected):
        raise TorchyardError(
            f"unpacked were {_format_versions(found)}, and {_format_versions(expected)} "
            "were meant; nothing was changed",
            location=str(where),
        )


def _format_versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(versions.items())) or "none"


Versions = Mapping[str, str]


def resolve_install(
    by: Installer,
    target: TargetEnvironment,
    chosen: Sequence[SelectedWheel],
    held: InstallRecord | None,
) -> Versions:
    """Return name → version of everything to install.

    Extensions do not change installed packages: of their requirements only missing packages are
    installed.
    """
    built = {one.name for one in chosen}
    new_wheels = {one.name: one.version for one in chosen if not _is_installed(one, held)}
    torch, *others = chosen
    requirement = str(torch.path) if torch.name in new_wheels else f"{torch.name}=={torch.version}"
    reinstalled = [torch.name] if torch.name in new_wheels else []
    extra = [
        missing
        for one in others
        if one.name in new_wheels
        for missing in _list_missing_requirements(one, target, built)
    ]
    show_progress("finding out what is needed there")
    needs = resolve_requirements(by, [requirement], reinstalled)
    if extra:
        pinned = replace(by, constraints=(*by.constraints, *_list_pins(target, needs, built)))
        try:
            needs = resolve_requirements(pinned, [requirement, *extra], reinstalled)
        except TorchyardError as error:
            print_warning(
                f"the extensions ask for {', '.join(extra)}, which was not to be had beside what "
                f"is there: {error.message}"
            )
    return {**{name: version for name, version in needs.items() if name not in built}, **new_wheels}


def _list_pins(target: TargetEnvironment, needs: Versions, built: set[str]) -> Iterator[str]:
    """Yield pins for torch's requirements and the installed packages.

    Packages that a wheel replaces are not pinned.
    """
    installed = {
        name: distribution.version for name, distribution in target.list_installed().items()
    }
    for name, version in {**installed, **needs}.items():
        with suppress(InvalidVersion):  # installers reject such a version
            if name not in built:
                yield f"{name}=={Version(version)}"


def _is_installed(one: SelectedWheel, held: InstallRecord | None) -> bool:
    """Return True if the wheel was installed before and has not been changed since."""
    part = held.parts.get(one.name) if held else None
    if held is None or part is None or part.wheel != one.sha256:
        return False
    return compute_record_digest(Path(held.prefix, part.path)) == part.record


def _list_missing_requirements(
    one: SelectedWheel, target: TargetEnvironment, built: set[str]
) -> Iterator[str]:
    installed = {
        name: distribution.version for name, distribution in target.list_installed().items()
    }
    for requirement in wheel_requirements_io.read_wheel_requirements(one.path, target.info.version):
        name = canonicalize_name(Requirement(requirement).name)
        if name in built:
            continue
        if name not in installed:
            yield requirement
        elif wheel_requirements_io.find_missing_requirements([requirement], installed):
            print_warning(
                f"{one.name} asks for {requirement}, and {installed[name]} is there and stays"
            )
