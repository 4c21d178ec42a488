"""The torch that was just installed, imported once: the first thing a person would do with it."""

from __future__ import annotations

from tasks.core.errors import BadArtifactError
from tasks.core.model import Command
from tasks.stages.env.job import Environment
from tasks.stages.wheel.job import BuiltJob
from tasks.system import manifests, shell
from tasks.system.python import importing
from tasks.system.voice import print_warning, show_progress

_IMPORT_CODE = "import torch; print(torch.__version__)"


def require_torch_import(job: BuiltJob, python: str, version: str) -> None:
    """`BadArtifactError` where the installed torch does not import, or is not `version`.

    A torch that is linked with the driver cannot be imported where none is: that is a warning.
    """
    show_progress("importing torch")
    env = manifests.read_manifest(job.env, Environment).build_child_environment(
        shell.build_host_env()
    )
    # not in a source tree with a torch in it
    command = Command((), env, "import torch", cwd=job.landing, log=job.log)
    found = importing.try_import(python, _IMPORT_CODE, command)
    if found.needs_driver:
        print_warning(f"torch {version} was installed and NOT imported: {found.problem}")
        return
    if found.error:
        raise BadArtifactError(
            f"torch {version} was installed and does not import: {found.problem}",
            location=found.error.location,
            hint="that log has the whole traceback; once its cause is gone, run the same command "
            "again: torch is then installed and imported anew",
        ) from found.error
    if version not in found.lines:  # warnings may stand around it
        raise BadArtifactError(
            f"torch {version} was installed, and what is imported says "
            f"{' '.join(found.lines[-1:])!r}",
            location=str(job.log),
            hint="remove the other torch from this environment, then run the same command again",
        )
