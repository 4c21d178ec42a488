"""The torch that was just installed, imported once: the first thing a person would do with it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tasks.effects import manifests, shell
from tasks.effects.voice import tick, warn
from tasks.errors import BadArtifactError, CommandFailedError
from tasks.model import Command
from tasks.stages.env.job import Environment
from tasks.stages.wheel.job import BuiltJob
from tasks.stages.wheel.linkage import is_driver

_CODE = "import torch; print(torch.__version__)"
_TIMEOUT = 600.0  # seconds: far more than a cold disk needs, so that a hang ends
_RAISED = re.compile(r"[\w.]*(?:Error|Exception|Interrupt|Exit)\b")  # how a traceback ends


def require(job: BuiltJob, python: str, version: str) -> None:
    """`BadArtifactError` where the installed torch does not import, or is not `version`.

    A torch that is linked with the driver cannot be imported where none is: that is a warning.
    """
    tick("importing torch")
    env = manifests.read(job.env, Environment).over(shell.host_env())
    argv = (python, "-X", "faulthandler", "-c", _CODE)
    # -c takes modules from the folder it runs in first: not from a source tree with a torch in it
    command = Command(argv, env, "import torch", cwd=job.landing, log=job.log, timeout=_TIMEOUT)
    lines: list[str] = []
    try:
        shell.run(command, lines.append)
    except CommandFailedError as error:
        last = _last(lines)
        if _lacks_driver(last):
            warn(f"torch {version} was installed and NOT imported: {last}")
            return
        raise BadArtifactError(
            f"torch {version} was installed and does not import: {last or error.what}",
            where=error.where,
            todo="that log has the whole traceback; once its cause is gone, run the same command "
            "again: torch is then installed and imported anew",
        ) from error
    if version not in lines:  # warnings may stand around it
        raise BadArtifactError(
            f"torch {version} was installed, and what is imported says {' '.join(lines[-1:])!r}",
            where=str(job.log),
            todo="remove the other torch from this environment, then run the same command again",
        )


def _last(lines: Sequence[str]) -> str:
    """The exception that ended it; those before it in a traceback led to it."""
    return next((line for line in reversed(lines) if _RAISED.match(line)), "")


def _lacks_driver(last: str) -> bool:
    """`ImportError: libcuda.so.1: cannot open shared object file: No such file or directory`"""
    library, _, words = last.partition(": ")[2].partition(": ")
    return is_driver(library) and words.startswith("cannot open shared object file")
