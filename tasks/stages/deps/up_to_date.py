"""Check in every run whether the interpreter, a compiler or a locked package changed."""

from tasks.core.deps_model import DepsJob, ToolchainStamps
from tasks.core.pip_requirements import describe_version_mismatches
from tasks.system import environments, manifests
from tasks.system.hardware import toolchain


def is_stale(job: DepsJob) -> bool:
    """Return True if the venv is missing, a compiler changed, or packages differ from the lock."""
    # an upgrade of the base interpreter can remove the interpreter of the venv
    if not job.existing and not environments.find_venv_python(job.venv).exists():
        return True
    if not (found := manifests.find_manifest(job.stamps, ToolchainStamps)):
        return True
    upgraded = any(toolchain.stamp_program(path) != stamp for path, stamp in found.files.items())
    return upgraded or bool(list_unlocked(job))


def list_unlocked(job: DepsJob) -> tuple[str, ...]:
    """Return a line for each package of torchyard.lock that is missing or has another version."""
    site = job.overlay if job.existing else environments.find_site_folder(job.venv)
    installed = environments.read_package_versions(site) if job.locked else {}
    toolkit = environments.read_package_versions(job.toolkit_folder)
    return (
        *describe_version_mismatches(job.locked, installed),
        *describe_version_mismatches(job.locked_toolkit, toolkit),
    )
