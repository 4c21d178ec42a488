"""One extension's wheel, compiled with the environment's compilers against the installed torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tasks.effects import capacity, files, manifests, ninja, shell
from tasks.effects.voice import tick
from tasks.errors import CommandFailedError
from tasks.model import Command
from tasks.stages.deps.job import Deps
from tasks.stages.env.job import Environment
from tasks.stages.extensions.cached import cached
from tasks.stages.extensions.job import ExtensionJob


def build(job: ExtensionJob, deps: Deps, tree: Path) -> Path:
    """The wheel of `tree`. Raises `CommandFailedError` with the compiler's first error."""
    landing = Path(job.work) / "landing"
    files.remove_owned(landing)
    files.own(landing)
    options = ("-v", "--no-build-isolation", "--no-deps", "--no-cache-dir", "-w", str(landing))
    argv = (deps.python, "-m", "pip", "wheel", *options, str(tree / job.subdirectory))
    tick("compiling")
    try:
        with cached(job, environment(job)) as env:
            command = Command(argv, env, f"build {job.name}", log=job.log)
            shell.run(command, ninja.follow())
    except CommandFailedError as error:
        error.todo = error.todo or f"the whole log is {job.log}"
        raise
    (wheel,) = landing.glob("*.whl")
    return wheel


def environment(job: ExtensionJob) -> Mapping[str, str]:
    """The extensions' environment with this one's own variables and forced headers."""
    env = manifests.read(job.environment, Environment).over(shell.host_env())
    env["MAX_JOBS"] = str(job.jobs or capacity.safe_jobs())
    env["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    env.update(job.env)
    for variable, option in _forcing(job).items() if job.includes else ():
        flags = [f"{option}{header}" for header in job.includes]
        env[variable] = " ".join([*env.get(variable, "").split(), *flags])
    return env


def _forcing(job: ExtensionJob) -> Mapping[str, str]:
    """How a header is put before every source: nvcc takes it everywhere, cl needs its own."""
    nvcc = {"NVCC_APPEND_FLAGS": "-include "}
    return {**nvcc, "CL": "/FI"} if job.system == "windows" else nvcc
