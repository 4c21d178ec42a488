"""Asked in each run, so it is small: does what was put there still lie there?"""

from __future__ import annotations

from pathlib import Path

from tasks.core.errors import TorchyardError
from tasks.stages.install.model import Installation, InstallJob
from tasks.stages.install.target_files_io import compute_record_digest, list_distribution_names
from tasks.stages.install.target_interpreter_io import find_interpreter
from tasks.system import manifests


def is_stale(job: InstallJob) -> bool:
    """Whether a person's pip was at work there. Of what torch needs another version may be there,
    and has to be there.
    """
    try:
        last = manifests.read_manifest(job.manifest, Installation)
        if str(find_interpreter(job.into, job.root)) != last.python:
            return True
    except TorchyardError:
        return True
    there: dict[Path, set[str]] = {}
    for one in last.distributions:
        if one.wheel and compute_record_digest(Path(one.record)) != one.digest:
            return True
        site = Path(one.record).parent.parent
        if one.name not in there.setdefault(site, list_distribution_names(site)):
            return True
    return False
