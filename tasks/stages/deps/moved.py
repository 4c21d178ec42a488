"""Asked in each run, so it is small: are the compilers still the files that were found?"""

from __future__ import annotations

from tasks.effects import manifests, toolchain
from tasks.errors import BuildError
from tasks.stages.deps.job import DepsJob, Stamps


def moved(job: DepsJob) -> bool:
    """Whether a compiler was upgraded, replaced or removed since. Whether that makes a difference
    is then told by its digest in deps.json.
    """
    try:
        last = manifests.read(job.stamps, Stamps)
    except BuildError:
        return True
    return any(toolchain.stamp(path) != stamp for path, stamp in last.files.items())
