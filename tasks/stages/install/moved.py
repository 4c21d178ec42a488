"""Asked in each run, so it is small: does what was put there still lie there?"""

from __future__ import annotations

from pathlib import Path

from tasks.core.errors import BuildError
from tasks.stages.install.job import Installed, InstallJob
from tasks.stages.install.target.interpreter import find
from tasks.stages.install.transaction.lying import names_in, record_digest
from tasks.system import manifests


def moved(job: InstallJob) -> bool:
    """Whether a person's pip was at work there. Of what torch needs another version may be there,
    and has to be there.
    """
    try:
        last = manifests.read(job.manifest, Installed)
        if str(find(job.into, job.root)) != last.python:
            return True
    except BuildError:
        return True
    there: dict[Path, set[str]] = {}
    for one in last.distributions:
        if one.wheel and record_digest(Path(one.record)) != one.digest:
            return True
        site = Path(one.record).parent.parent
        if one.name not in there.setdefault(site, names_in(site)):
            return True
    return False
