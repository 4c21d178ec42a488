"""One environment is for one profile."""

from __future__ import annotations

from pathlib import Path

from tasks.core.errors import TorchyardError
from tasks.stages.install.job import InstallJob
from tasks.stages.install.target.environment import TargetEnvironment
from tasks.stages.install.transaction import journal


def require_sole_profile(job: InstallJob, target: TargetEnvironment) -> None:
    """What another profile replaced there, or began to, it alone can put back: a `BuildError`."""
    for other in sorted(Path(job.builds).glob("*/replaced")):
        taken = other != Path(job.replaced) and journal.find_stamp(
            other, target.prefix, target.sites
        )
        if taken:
            name = other.parent.name
            raise TorchyardError(
                f"profile {name} has put its torch into {target.prefix}; nothing was changed",
                location=str(taken),
                hint=f"doit restore --yes profile={name}, then run the same command again",
            )
