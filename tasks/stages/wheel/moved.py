"""Asked in each run, so it is small: is the torch that was left still there?"""

from __future__ import annotations

from pathlib import Path

from tasks.effects import manifests, pythons
from tasks.errors import BuildError
from tasks.stages.wheel.job import BuiltJob, ExistingJob, PrebuiltJob, Wheel


def moved(job: PrebuiltJob | BuiltJob | ExistingJob) -> bool:
    """Whether the torch that was left is not there any more, or is another one: a person's pip may
    have been at work.
    """
    try:
        last = manifests.read(job.wheel, Wheel)
    except BuildError:
        return True
    if last.kind == "libtorch":
        return not Path(last.folder).is_dir()
    found = pythons.torch_in([Path(last.folder).parent])
    return found is None or found.version != last.version
