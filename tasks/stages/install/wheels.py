"""The wheels of this profile, as the manifests name them, out of the wheelhouse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from tasks.core.errors import BadArtifactError
from tasks.core.model import Artifact
from tasks.stages.extensions.job import BuiltExtension
from tasks.stages.install.job import InstallJob
from tasks.stages.wheel.job import Wheel
from tasks.system import files, manifests
from tasks.system.voice import print_warning
from tasks.wheels.files import wheelfile


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
    with wheelfile.open_wheel(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    return SelectedWheel(path, name, str(version), tags, artifact.sha256, size)
