"""One environment is for one profile."""

from __future__ import annotations

from pathlib import Path

from tasks.core.errors import BuildError
from tasks.stages.install.job import InstallJob
from tasks.stages.install.target.environment import Target
from tasks.stages.install.transaction import journal


def require(job: InstallJob, target: Target) -> None:
    """What another profile replaced there, or began to, it alone can put back: a `BuildError`."""
    for other in sorted(Path(job.builds).glob("*/replaced")):
        taken = other != Path(job.replaced) and journal.stamp_of(other, target.prefix, target.sites)
        if taken:
            name = other.parent.name
            raise BuildError(
                f"profile {name} has put its torch into {target.prefix}; nothing was changed",
                where=str(taken),
                todo=f"doit restore --yes profile={name}, then run the same command again",
            )
