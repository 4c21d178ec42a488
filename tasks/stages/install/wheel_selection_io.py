"""The wheels of this profile, as the manifests name them, out of the wheelhouse."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from packaging.requirements import Requirement
from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from tasks.core.errors import BadArtifactError, TorchyardError
from tasks.core.model import Artifact
from tasks.core.pip_requirements import is_requirement_applicable, parse_requirements
from tasks.settings.values import CompanionName
from tasks.stages.extensions.model import BuiltExtension
from tasks.stages.install.model import InstallJob
from tasks.stages.install.target_environment_io import (
    Distribution,
    EnvironmentInfo,
    TargetEnvironment,
)
from tasks.stages.install.target_interpreter_io import (
    SETTING_KEY,
    VENV_HINT,
    build_unwritable_error,
)
from tasks.stages.wheel.model import Wheel
from tasks.system import files, manifests
from tasks.system.output import print_warning
from tasks.wheels import wheel_archive_io


@dataclass(frozen=True)
class SelectedWheel:
    """A wheel: `name` as an installer normalizes it, `size` in bytes once it is unpacked."""

    path: Path
    name: str
    version: str
    tags: frozenset[Tag]
    sha256: str
    size: int


def select_wheels(job: InstallJob) -> tuple[SelectedWheel, ...]:
    """torch's first. Raises `BadArtifactError` where the wheelhouse does not have one."""
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
    """Its name alone does not say that it is the one: extensions are built for many a torch."""
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
    """Raise a `BuildError` for what can be known before a file is written."""
    said = target.info
    if said.managed:
        raise TorchyardError(
            f"{target.python} is managed by the system, which says that nobody else installs "
            "there; nothing was changed",
            location=said.managed,
            hint=VENV_HINT,
        )
    for wheel in wheels:
        if not {str(tag) for tag in wheel.tags} & set(said.tags):
            raise build_unfit_error(target, wheel)
    for folder in (said.purelib, said.platlib, said.scripts):
        if Path(folder).is_dir() and not os.access(folder, os.W_OK | os.X_OK):
            raise build_unwritable_error(folder)


def build_unfit_error(target: TargetEnvironment, wheel: SelectedWheel) -> BadArtifactError:
    """For another Python, another ABI or another platform."""
    named = ", ".join(sorted(map(str, wheel.tags)))
    return BadArtifactError(
        f"{wheel.path.name} is for {named}, and {target.python} takes {target.info.tags[0]}; "
        "nothing was changed",
        location=SETTING_KEY,
        hint=f"set python: {target.python}, so that wheels are made for it, or name another one",
    )


def list_install_warnings(target: TargetEnvironment, coming: Mapping[str, str]) -> Iterator[str]:
    """What a person has to know where `coming` (normalized name → version) is installed."""
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
    """What stays there and asks for another version than is coming."""
    staying = [one for one in said.distributions if canonicalize_name(one.name) not in coming]
    for one in sorted(staying, key=lambda one: one.name):
        for wanted in _find_unmet_requirements(said, one, coming):
            name = canonicalize_name(wanted.name)
            told = f"{one.name} {one.version} wants {wanted}, and {coming[name]} is installed"
            yield f"{told}; {_COMPANION_HINT.format(one.name)}" if _is_companion(one) else told


def _is_companion(one: Distribution) -> bool:
    return canonicalize_name(one.name) in get_args(CompanionName)


def _find_unmet_requirements(
    said: EnvironmentInfo, one: Distribution, coming: Mapping[str, str]
) -> Iterator[Requirement]:
    for wanted in parse_requirements(one.requires):
        version = coming.get(canonicalize_name(wanted.name))
        if version is None or not is_requirement_applicable(wanted, said.markers):
            continue
        wanted.marker = None  # it was said to hold
        if not wanted.specifier.contains(version, prereleases=True):
            yield wanted


def compare_installed(
    before: TargetEnvironment, after: TargetEnvironment, coming: Mapping[str, str]
) -> Sequence[str]:
    """What lies there and was not meant to: the list before, the list after, and what came. Pure
    but for the lists.
    """
    expected = {name: one.version for name, one in before.list_installed().items()} | dict(coming)
    found = {name: one.version for name, one in after.list_installed().items()}
    names = sorted(expected.keys() | found.keys())
    return [
        f"{name} {found.get(name, 'is gone')} (meant: {expected.get(name, 'none')})"
        for name in names
        if found.get(name) != expected.get(name)
    ]
