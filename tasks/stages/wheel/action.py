"""One way for each kind of job, to the same two manifests."""

from __future__ import annotations

from pathlib import Path

from tasks.core.deps_model import Deps
from tasks.core.model import Artifact, TorchFound
from tasks.stages.wheel import built, coverage, installed
from tasks.stages.wheel.job import BuiltJob, ExistingJob, Kind, PrebuiltJob, Surface, Wheel
from tasks.stages.wheel.surface import surface
from tasks.system import files, manifests, space
from tasks.system.hardware import cudahome
from tasks.system.python import environments, packages
from tasks.system.python.packages import Download, Extra, Packages
from tasks.system.voice import say, tick
from tasks.wheels.files import wheelfile, wheelhouse


def run(job: PrebuiltJob | BuiltJob | ExistingJob) -> tuple[Wheel, Surface]:
    """Leave an installed, checked torch. Raises `FetchError`, `BadArtifactError`."""
    deps = manifests.read(job.deps, Deps)
    match job:
        case PrebuiltJob():
            return _prebuilt(job, deps)
        case BuiltJob():
            return built.run(job, deps)
    found = installed.torch_of(job.python)
    say(f"torch {found.version} in {found.folder}")
    return _outputs(deps, surface(found, deps, job.reading), found, None)


def _prebuilt(job: PrebuiltJob, deps: Deps) -> tuple[Wheel, Surface]:
    space.require_some(job.landing, "installing torch and the libraries it needs")
    path, artifact = _fetch(job, deps)
    tick(f"checking {path.name}")
    wheelfile.verify(path, deps.python_version)
    coverage.require_targets(job, path)
    tick("installing torch and the libraries it needs")
    into = Packages(deps.python, environments.find_uv(), job.log)
    into.install_locked(job.locked, job.index)
    into.install_wheel(path, Extra(deps.toolkit.pins if deps.toolkit else (), job.index))
    found = installed.torch_of(deps.python)
    release = job.requirement.partition("==")[2].partition("+")[0]
    installed.require(found, release, job.cuda)
    if deps.toolkit and deps.toolkit.pins:
        cudahome.refresh(Path(found.folder).parent, Path(deps.toolkit.home))
    say(f"torch {found.version} ({artifact.name}, sha256 {artifact.sha256[:12]}…)")
    return _outputs(deps, surface(found, deps, job.reading), found, artifact)


def _fetch(job: PrebuiltJob, deps: Deps) -> tuple[Path, Artifact]:
    asked = f"{job.requirement} for {deps.python_version.rpartition('.')[0]}"
    found = wheelhouse.kept(job.wheelhouse, asked, job.index)
    if found and job.locked_sha256 in ("", found[1].sha256):
        wheelhouse.require_sha256(found[1], job.sha256)
        say(f"{found[0].name} is in the wheelhouse")
        return found
    tick(f"fetching {job.requirement}")
    arrived = packages.download(
        Download(deps.python, job.requirement, job.index, job.landing, job.log)
    )
    known = files.artifact(arrived)
    wheelhouse.require_sha256(known, job.sha256)
    wheelhouse.require_locked(known, job.locked_sha256, "torch")
    return wheelhouse.keep(arrived, job.wheelhouse, asked, job.index)


def _outputs(
    deps: Deps, shown: Surface, found: TorchFound, artifact: Artifact | None
) -> tuple[Wheel, Surface]:
    kind: Kind = "wheel" if artifact else "existing"
    release = found.version.partition("+")[0]
    wheel = Wheel(found.version, release, found.cuda, found.folder, deps.python, kind, artifact)
    return wheel, shown
