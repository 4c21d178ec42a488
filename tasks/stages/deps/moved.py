"""Asked in each run, so it is small: do interpreter and compilers stand where they were found?"""

from __future__ import annotations

from tasks.effects import environments, manifests, toolchain
from tasks.errors import BuildError
from tasks.stages.deps.job import DepsJob, Stamps


def moved(job: DepsJob) -> bool:
    """Whether the environment's interpreter is gone, which an upgrade of the one beneath it can do,
    or a compiler was upgraded, replaced or removed since. Whether that makes a difference is then
    told by deps.json.
    """
    if not job.existing and not environments.python_of(job.venv).exists():
        return True
    try:
        last = manifests.read(job.stamps, Stamps)
    except BuildError:
        return True
    return any(toolchain.stamp(path) != stamp for path, stamp in last.files.items())
