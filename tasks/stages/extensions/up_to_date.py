"""Asked in each run, so it is small: does the last result of an extension still stand?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tasks.core.deps_model import DepsManifest
from tasks.core.errors import TorchyardError
from tasks.core.pip_requirements import describe_version_mismatches
from tasks.stages.extensions import extension_sources_io
from tasks.stages.extensions.model import BuiltExtension, ExtensionJob
from tasks.system import environments, manifests


def is_stale(job: ExtensionJob) -> bool:
    """Whether the last result no longer stands: its folder was edited, its host was away, or
    torchyard.lock holds something else.
    """
    try:
        last = manifests.read_manifest(job.manifest, BuiltExtension)
    except TorchyardError:
        return True
    if last.status == "unreachable" or not all(Path(path).is_file() for path in last.libraries):
        return True
    if job.kind == "path" and last.source.get(
        "digest"
    ) != extension_sources_io.compute_folder_digest(job):
        return True
    return any(_find_lock_differences(job, last))


def list_unlocked(job: ExtensionJob) -> tuple[str, ...]:
    """What torchyard.lock holds and is not there."""
    return tuple(_find_lock_differences(job, manifests.read_manifest(job.manifest, BuiltExtension)))


def _find_lock_differences(job: ExtensionJob, last: BuiltExtension) -> Iterator[str]:
    commit, digest = last.source.get("commit", ""), last.source.get("sha256", "")
    if job.commit not in ("", commit):
        yield f"{job.ref} is locked at {job.commit[:7]}, and {commit[:7]} is built"
    if job.locked_sha256 not in ("", digest):
        yield f"sha256 {job.locked_sha256[:12]}… is locked, and {digest[:12]}… is built"
    if job.locked:
        yield from describe_version_mismatches(
            job.locked, environments.read_package_versions(_find_site_packages(job))
        )
    required = job.work / "requires"
    if job.locked_requires and Path(required).is_dir():
        yield from describe_version_mismatches(
            job.locked_requires, environments.read_package_versions(required)
        )


def _find_site_packages(job: ExtensionJob) -> Path:
    """The environment's, as deps left it."""
    return environments.find_site_folder(
        Path(manifests.read_manifest(job.deps, DepsManifest).scripts).parent
    )
