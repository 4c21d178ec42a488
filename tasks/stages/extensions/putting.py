"""An extension's wheel, into the environment of its torch: what it asks for first, then tried, then
installed. One at a time: an environment has one hand at work in it.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from tasks.core.deps_model import Deps
from tasks.core.errors import BadArtifactError
from tasks.core.model import Artifact, Command
from tasks.stages.extensions.job import ExtensionJob
from tasks.stages.extensions.providing import provide_for_build, provide_for_use
from tasks.stages.extensions.variables import environment
from tasks.system.python import environments, importing
from tasks.system.python.packages import Extra, Packages
from tasks.system.voice import say, tick
from tasks.wheels.files import requirements, wheelhouse

_ONE_AT_A_TIME = threading.Lock()


def prepare(job: ExtensionJob, deps: Deps) -> None:
    """What its build imports."""
    with _ONE_AT_A_TIME:
        provide_for_build(job, deps)


def put(job: ExtensionJob, deps: Deps, wheel: Path, unpacked: Path) -> Artifact:
    """Keep it and install it where it imports. `BadArtifactError` where it does not: the one that
    was there before is there still.
    """
    into = Packages(deps.python, environments.find_uv(), job.log)
    with _ONE_AT_A_TIME:
        provide_for_use(job, deps, requirements.of_wheel(wheel, deps.python_version))
        _require_import(job, deps, unpacked)
        tick("installing")
        kept, artifact = wheelhouse.keep(wheel, job.wheelhouse, job.name, job.location)
        into.install_wheel(kept, Extra(options=("--no-deps",)))
    return artifact


def _require_import(job: ExtensionJob, deps: Deps, unpacked: Path) -> None:
    """Its modules, from the wheel itself, before it takes the place of one that works."""
    if not job.imports:
        return
    tick(f"importing {', '.join(job.imports)}")
    env = dict(environment(job))
    folders = [unpacked, *unpacked.glob("*.data/p*lib")]
    before = [env["PYTHONPATH"]] if env.get("PYTHONPATH") else []
    env["PYTHONPATH"] = os.pathsep.join([*map(str, folders), *before])
    command = Command((), env, f"import {job.name}", cwd=unpacked, log=job.log)
    # torch first: its libraries are found by nobody else
    found = importing.attempt(deps.python, f"import torch, {', '.join(job.imports)}", command)
    if found.lacks_driver:
        say(f"{job.name} imports only where there is a card: {found.problem}")
    elif found.error:
        raise BadArtifactError(
            f"{job.name} was built and does not import: {found.problem}",
            where=found.error.where,
            todo="that log has the whole traceback. What was installed before is there still",
        )
