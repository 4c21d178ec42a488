"""Asked in each run, so it is small: do interpreter and compilers stand where they were found, and
are the packages those of torchyard.lock?
"""

from __future__ import annotations

from tasks.core.dependencies import unlike
from tasks.core.deps_model import DepsJob, Stamps
from tasks.core.errors import BuildError
from tasks.system import manifests
from tasks.system.hardware import toolchain
from tasks.system.python import environments, frozen


def moved(job: DepsJob) -> bool:
    """Whether the environment's interpreter is gone, which an upgrade of the one beneath it can do,
    a compiler was upgraded, replaced or removed since, or other packages are locked. Whether that
    makes a difference is then told by deps.json.
    """
    if not job.existing and not environments.python_of(job.venv).exists():
        return True
    try:
        last = manifests.read(job.stamps, Stamps)
    except BuildError:
        return True
    upgraded = any(toolchain.stamp(path) != stamp for path, stamp in last.files.items())
    return upgraded or bool(unlocked(job))


def unlocked(job: DepsJob) -> tuple[str, ...]:
    """What torchyard.lock holds and is not there."""
    site = job.overlay if job.existing else frozen.site_of(job.venv)
    return (
        *unlike(job.locked, frozen.versions(site) if job.locked else {}),
        *unlike(job.locked_toolkit, frozen.versions(job.toolkit_folder)),
    )
