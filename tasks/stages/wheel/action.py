"""One way for each kind of job, to the same two manifests."""

from __future__ import annotations

from pathlib import Path

from tasks.core.deps_model import DepsManifest
from tasks.core.model import Artifact, InstalledTorch
from tasks.stages.wheel import built, coverage, installed
from tasks.stages.wheel.job import (
    AbiFingerprint,
    BuiltJob,
    ExistingJob,
    PrebuiltJob,
    Wheel,
    WheelKind,
)
from tasks.stages.wheel.surface import read_abi_fingerprint
from tasks.system import files, manifests, space
from tasks.system.hardware import cudahome
from tasks.system.python import environments, packages
from tasks.system.python.packages import DownloadRequest, InstallOptions, PackageInstaller
from tasks.system.voice import print_line, show_progress
from tasks.wheels.files import wheelfile, wheelhouse


def run(job: PrebuiltJob | BuiltJob | ExistingJob) -> tuple[Wheel, AbiFingerprint]:
    """Leave an installed, checked torch. Raises `FetchError`, `BadArtifactError`."""
    deps = manifests.read_manifest(job.deps, DepsManifest)
    match job:
        case PrebuiltJob():
            return _install_prebuilt(job, deps)
        case BuiltJob():
            return built.build_torch(job, deps)
    found = installed.find_installed_torch(job.python)
    print_line(f"torch {found.version} in {found.folder}")
    return _build_manifests(deps, read_abi_fingerprint(found, deps, job.reading), found, None)


def _install_prebuilt(job: PrebuiltJob, deps: DepsManifest) -> tuple[Wheel, AbiFingerprint]:
    space.require_minimum_space(job.landing, "installing torch and the libraries it needs")
    path, artifact = _fetch_wheel(job, deps)
    show_progress(f"checking {path.name}")
    wheelfile.verify_wheel(path, deps.python_version)
    coverage.require_target_code(job, path)
    show_progress("installing torch and the libraries it needs")
    into = PackageInstaller(deps.python, environments.find_uv(), job.log)
    into.install_locked(job.locked, job.index)
    into.install_wheel(path, InstallOptions(deps.toolkit.pins if deps.toolkit else (), job.index))
    found = installed.find_installed_torch(deps.python)
    release = job.requirement.partition("==")[2].partition("+")[0]
    installed.require_release(found, release, job.cuda)
    if deps.toolkit and deps.toolkit.pins:
        cudahome.link_new_libraries(Path(found.folder).parent, Path(deps.toolkit.home))
    print_line(f"torch {found.version} ({artifact.name}, sha256 {artifact.sha256[:12]}…)")
    return _build_manifests(deps, read_abi_fingerprint(found, deps, job.reading), found, artifact)


def _fetch_wheel(job: PrebuiltJob, deps: DepsManifest) -> tuple[Path, Artifact]:
    asked = f"{job.requirement} for {deps.python_version.rpartition('.')[0]}"
    found = wheelhouse.find_stored_wheel(job.wheelhouse, asked, job.index)
    if found and job.locked_sha256 in ("", found[1].sha256):
        wheelhouse.require_sha256(found[1], job.sha256)
        print_line(f"{found[0].name} is in the wheelhouse")
        return found
    show_progress(f"fetching {job.requirement}")
    arrived = packages.download_distribution(
        DownloadRequest(deps.python, job.requirement, job.index, job.landing, job.log)
    )
    known = files.read_artifact(arrived)
    wheelhouse.require_sha256(known, job.sha256)
    wheelhouse.require_locked_digest(known, job.locked_sha256, "torch")
    return wheelhouse.store_wheel(arrived, job.wheelhouse, asked, job.index)


def _build_manifests(
    deps: DepsManifest, shown: AbiFingerprint, found: InstalledTorch, artifact: Artifact | None
) -> tuple[Wheel, AbiFingerprint]:
    kind: WheelKind = "wheel" if artifact else "existing"
    release = found.version.partition("+")[0]
    wheel = Wheel(found.version, release, found.cuda, found.folder, deps.python, kind, artifact)
    return wheel, shown
