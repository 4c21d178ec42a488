"""Check if an extension's last result is still valid. Every run does this, so it must be fast."""

from collections.abc import Iterator
from pathlib import Path

from tasks.core.deps_model import DepsManifest
from tasks.core.pip_requirements import describe_version_mismatches
from tasks.stages.extensions.model import BuiltExtension, ExtensionJob
from tasks.system import environments, manifests, source_trees


def is_stale(job: ExtensionJob) -> bool:
    """Return True if the last result is no longer valid, e.g. if the user's folder was edited."""
    last = manifests.find_manifest(job.manifest, BuiltExtension)
    if last is None or last.status == "unreachable":
        return True
    if not all(Path(path).is_file() for path in last.libraries):
        return True
    digest = last.source.get("digest")
    if job.kind == "path" and digest != source_trees.hash_source_tree(Path(job.location)):
        return True
    return any(_find_lock_differences(job, last))


def list_unlocked(job: ExtensionJob) -> tuple[str, ...]:
    """Return the differences between the last result and torchyard.lock."""
    return tuple(_find_lock_differences(job, manifests.read_manifest(job.manifest, BuiltExtension)))


def _find_lock_differences(job: ExtensionJob, last: BuiltExtension) -> Iterator[str]:
    commit, digest = last.source.get("commit", ""), last.source.get("sha256", "")
    if job.commit not in ("", commit):
        yield f"{job.ref} is locked at {job.commit[:7]}, but {commit[:7]} was built"
    if job.locked_sha256 not in ("", digest):
        yield f"sha256 {job.locked_sha256[:12]}… is locked, but {digest[:12]}… was built"
    if job.locked:
        # the site-packages of the environment that the deps stage created
        path = job.layout.compute_manifest_path("deps")
        scripts = Path(manifests.read_manifest(path, DepsManifest).scripts)
        versions = environments.read_package_versions(environments.find_site_folder(scripts.parent))
        yield from describe_version_mismatches(job.locked, versions)
    required = Path(job.work, "requires")
    if job.locked_requires and required.is_dir():
        versions = environments.read_package_versions(required)
        yield from describe_version_mismatches(job.locked_requires, versions)
