"""An extension's wheel, into the environment of its torch: what it asks for first, then tried, then
installed. One at a time: an environment has one hand at work in it.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from tasks.core.deps_model import DepsManifest
from tasks.core.errors import BadArtifactError
from tasks.core.model import Artifact, Command
from tasks.stages.extensions.job import ExtensionJob
from tasks.stages.extensions.providing import (
    install_build_requirements,
    install_runtime_requirements,
)
from tasks.stages.extensions.variables import read_extension_environment
from tasks.system.python import environments, importing
from tasks.system.python.packages import InstallOptions, PackageInstaller
from tasks.system.voice import print_line, show_progress
from tasks.wheels.files import requirements, wheelhouse

_INSTALL_LOCK = threading.Lock()


def prepare_build(job: ExtensionJob, deps: DepsManifest) -> None:
    """What its build imports."""
    with _INSTALL_LOCK:
        install_build_requirements(job, deps)


def install_extension(
    job: ExtensionJob, deps: DepsManifest, wheel: Path, unpacked: Path
) -> Artifact:
    """Keep it and install it where it imports. `BadArtifactError` where it does not: the one that
    was there before is there still.
    """
    into = PackageInstaller(deps.python, environments.find_uv(), job.log)
    with _INSTALL_LOCK:
        install_runtime_requirements(
            job, deps, requirements.read_wheel_requirements(wheel, deps.python_version)
        )
        _require_import(job, deps, unpacked)
        show_progress("installing")
        kept, artifact = wheelhouse.store_wheel(wheel, job.wheelhouse, job.name, job.location)
        into.install_wheel(kept, InstallOptions(options=("--no-deps",)))
    return artifact


def _require_import(job: ExtensionJob, deps: DepsManifest, unpacked: Path) -> None:
    """Its modules, from the wheel itself, before it takes the place of one that works."""
    if not job.imports:
        return
    show_progress(f"importing {', '.join(job.imports)}")
    env = dict(read_extension_environment(job))
    folders = [unpacked, *unpacked.glob("*.data/p*lib")]
    before = [env["PYTHONPATH"]] if env.get("PYTHONPATH") else []
    env["PYTHONPATH"] = os.pathsep.join([*map(str, folders), *before])
    command = Command((), env, f"import {job.name}", cwd=unpacked, log=job.log)
    # torch first: its libraries are found by nobody else
    found = importing.try_import(deps.python, f"import torch, {', '.join(job.imports)}", command)
    if found.needs_driver:
        print_line(f"{job.name} imports only where there is a card: {found.problem}")
    elif found.error:
        raise BadArtifactError(
            f"{job.name} was built and does not import: {found.problem}",
            location=found.error.location,
            hint="that log has the whole traceback. What was installed before is there still",
        )
