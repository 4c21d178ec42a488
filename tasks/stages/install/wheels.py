"""The wheels of this profile, as the manifests name them, out of the wheelhouse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from tasks.core.errors import BadArtifactError
from tasks.core.model import Artifact
from tasks.stages.extensions.job import Built
from tasks.stages.install.job import InstallJob
from tasks.stages.wheel.job import Wheel
from tasks.system import files, manifests
from tasks.system.voice import warn
from tasks.wheels.files import wheelfile


@dataclass(frozen=True)
class Chosen:
    """A wheel: `name` as an installer normalizes it, `size` in bytes once it is unpacked."""

    path: Path
    name: str
    version: str
    tags: frozenset[Tag]
    sha256: str
    size: int


def choose(job: InstallJob) -> tuple[Chosen, ...]:
    """torch's first. Raises `BadArtifactError` where the wheelhouse does not have one."""
    torch = manifests.read(job.wheel, Wheel)
    if torch.artifact is None:
        raise BadArtifactError("this torch came without a wheel", where=str(job.wheel))
    return (_chosen(job, torch.artifact, "wheel"), *_extensions(job))


def _extensions(job: InstallJob) -> Iterator[Chosen]:
    for name, manifest in job.extensions.items():
        if job.partial and not Path(manifest).is_file():
            warn(f"{name} was not built; the others are installed without it (install.partial)")
            continue
        built = manifests.read(manifest, Built)
        if built.artifact:
            yield _chosen(job, built.artifact, f"extensions:{name}")
        else:
            warn(f"{name} was not built, and so is not installed: {built.status}")


def _chosen(job: InstallJob, artifact: Artifact, stage: str) -> Chosen:
    """Its name alone does not say that it is the one: extensions are built for many a torch."""
    for path in sorted(Path(job.wheelhouse).rglob(artifact.name)):
        if path.stat().st_size == artifact.size and files.artifact(path) == artifact:
            return _read(path, artifact)
    raise BadArtifactError(
        f"there is no {artifact.name} with the sha256 {artifact.sha256[:12]}…, which was built",
        where=str(job.wheelhouse),
        todo=f"doit clean {stage}, then doit build: it is then put there again",
    )


def _read(path: Path, artifact: Artifact) -> Chosen:
    try:
        name, version, _, tags = parse_wheel_filename(path.name)
    except InvalidWheelFilename as error:
        raise BadArtifactError(str(error), where=str(path)) from error
    with wheelfile.opened(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    return Chosen(path, name, str(version), tags, artifact.sha256, size)
