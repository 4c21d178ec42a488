"""Install what the tree asks for, resolve the environment, and render it for each shell."""

from __future__ import annotations

from pathlib import Path

from tasks.effects import capacity, environments, files, manifests
from tasks.effects.packages import Extra, Packages
from tasks.effects.render import render
from tasks.stages.deps.job import Cache, Deps
from tasks.stages.env.job import Caching, Environment, EnvJob
from tasks.stages.env.launchers import caching
from tasks.stages.env.resolve import resolve
from tasks.stages.source.job import SourceTree

_REQUIREMENTS = ("requirements.txt", "requirements-build.txt")


def run(job: EnvJob) -> tuple[Environment, Environment, Caching]:
    """The environment of source builds, that of extensions, and what caches their compilers; the
    scripts hold the first.
    """
    deps, cache = manifests.read(job.deps, Deps), manifests.read(job.cache, Cache)
    tree = manifests.read(job.source, SourceTree).tree if job.source else ""
    full, extension = resolve(job, deps, cache, tree)
    if tree:
        _install_requirements(job, deps, Path(tree))
    write_scripts(job, full)
    return full, extension, caching(job, deps, cache)


def _install_requirements(job: EnvJob, deps: Deps, tree: Path) -> None:
    wanted = [path for name in _REQUIREMENTS if (path := tree / name).is_file()]
    if not wanted:
        return
    pins = deps.toolkit.pins if deps.toolkit else ()
    into = Packages(deps.python, environments.find_uv(), job.log)
    into.install((), Extra(pins, files=tuple(wanted)), "install the tree's requirements")


def write_scripts(job: EnvJob, environment: Environment) -> None:
    """One script per shell, whole or not at all."""
    values = {
        "profile": job.profile,
        "set": list(environment.set.items()),
        "defaults": list(environment.defaults.items()),
        "unset": environment.unset,
        "prepend": list(environment.prepend.items()),
        "separator": environment.separator,
        "hand_jobs": "" if "MAX_JOBS" in environment.set else str(capacity.safe_jobs()),
    }
    for script in job.scripts:
        text = render(job.templates / f"{script.name}.j2", values)
        # Windows PowerShell 5.1 reads UTF-8 only where a script starts with this mark
        mark = "\ufeff" if script.suffix == ".ps1" else ""
        files.write_atomic(script, mark + text)
