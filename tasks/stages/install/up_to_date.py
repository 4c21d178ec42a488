"""Check in every run that the environment still has the installed packages."""

from pathlib import Path

from tasks.core.errors import TorchyardError
from tasks.stages.install.model import Installation, InstallJob
from tasks.stages.install.target_environment_io import compute_record_digest, list_site_infos
from tasks.stages.install.target_interpreter_io import find_interpreter
from tasks.system import manifests


def is_stale(job: InstallJob) -> bool:
    """Return True if the interpreter or a built wheel changed, or an installed package is gone."""
    try:
        last = manifests.read_manifest(job.manifest, Installation)
        if str(find_interpreter(job.into, job.root)) != last.python:
            return True
    except TorchyardError:
        return True
    installed: dict[Path, set[str]] = {}
    for distribution in last.distributions:
        record = Path(distribution.record)
        if distribution.wheel and compute_record_digest(record) != distribution.digest:
            return True
        site = record.parent.parent
        if site not in installed:
            installed[site] = {name for _, name in list_site_infos(site)}
        if distribution.name not in installed[site]:
            return True
    return False
