"""Check in every run if the installed torch is present and matches torchyard.lock."""

from pathlib import Path

from tasks.core.pip_requirements import describe_version_mismatches
from tasks.stages.wheel.model import BuiltJob, ExistingJob, PrebuiltJob, Wheel
from tasks.system import environments, interpreters, manifests

WheelJob = PrebuiltJob | BuiltJob | ExistingJob


def is_stale(job: WheelJob) -> bool:
    """Return True if torch is missing, was replaced, or differs from torchyard.lock."""
    if not (last := manifests.find_manifest(job.wheel, Wheel)):
        return True
    if last.kind == "libtorch":
        return not Path(last.folder).is_dir()
    installed = interpreters.find_torch([Path(last.folder).parent])
    return installed is None or installed.version != last.version or bool(list_unlocked(job))


def list_unlocked(job: WheelJob) -> tuple[str, ...]:
    """Return the differences between the installed packages and torchyard.lock."""
    if isinstance(job, ExistingJob):
        return ()
    last = manifests.read_manifest(job.wheel, Wheel)
    versions = environments.read_package_versions(Path(last.folder).parent) if job.locked else {}
    mismatches = describe_version_mismatches(job.locked, versions)
    locked_digest = job.locked_sha256 if isinstance(job, PrebuiltJob) else ""
    if locked_digest in ("", last.artifact.sha256 if last.artifact else ""):
        return mismatches
    return (f"torch with sha256 {locked_digest[:12]}… is locked", *mismatches)
