"""The torch that was just installed, imported once: the first thing a person would do with it."""

from __future__ import annotations

from tasks.core.errors import BadArtifactError
from tasks.core.model import Command
from tasks.stages.env.job import Environment
from tasks.stages.wheel.job import BuiltJob
from tasks.system import manifests, shell
from tasks.system.python import importing
from tasks.system.voice import tick, warn

_CODE = "import torch; print(torch.__version__)"


def require(job: BuiltJob, python: str, version: str) -> None:
    """`BadArtifactError` where the installed torch does not import, or is not `version`.

    A torch that is linked with the driver cannot be imported where none is: that is a warning.
    """
    tick("importing torch")
    env = manifests.read(job.env, Environment).over(shell.host_env())
    # not in a source tree with a torch in it
    command = Command((), env, "import torch", cwd=job.landing, log=job.log)
    found = importing.attempt(python, _CODE, command)
    if found.lacks_driver:
        warn(f"torch {version} was installed and NOT imported: {found.problem}")
        return
    if found.error:
        raise BadArtifactError(
            f"torch {version} was installed and does not import: {found.problem}",
            where=found.error.where,
            todo="that log has the whole traceback; once its cause is gone, run the same command "
            "again: torch is then installed and imported anew",
        ) from found.error
    if version not in found.lines:  # warnings may stand around it
        raise BadArtifactError(
            f"torch {version} was installed, and what is imported says "
            f"{' '.join(found.lines[-1:])!r}",
            where=str(job.log),
            todo="remove the other torch from this environment, then run the same command again",
        )
