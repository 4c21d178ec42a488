"""Install what the tree asks for, resolve the environments, and have them written down."""

from __future__ import annotations

from pathlib import Path

from tasks.compiler_cache import distributed as distribute
from tasks.core.deps_model import Cache, Deps
from tasks.stages.env.job import Caching, Environment, EnvJob
from tasks.stages.env.launchers import caching
from tasks.stages.env.resolve import resolve
from tasks.stages.env.runtime import resolve_runtime
from tasks.stages.env.scripts import write_scripts, write_wrappers
from tasks.stages.source.job import SourceTree
from tasks.system import manifests
from tasks.system.python import environments
from tasks.system.python.packages import Extra, Packages

_REQUIREMENTS = ("requirements.txt", "requirements-build.txt")


def run(job: EnvJob) -> tuple[Environment, Environment, Caching]:
    """The environment of source builds, that of extensions, and what caches their compilers; the
    scripts hold the first, and the wrappers that of programs that run.
    """
    deps, cache = manifests.read(job.deps, Deps), manifests.read(job.cache, Cache)
    tree = manifests.read(job.source, SourceTree).tree if job.source else ""
    if job.distribute:
        distribute.prepare(job.distribute)
    full, extension = resolve(job, deps, cache, tree)
    if tree:
        _install_requirements(job, deps, Path(tree))
    write_scripts(job, full)
    write_wrappers(job, resolve_runtime(job, deps))
    return full, extension, caching(job, deps, cache)


def _install_requirements(job: EnvJob, deps: Deps, tree: Path) -> None:
    wanted = [path for name in _REQUIREMENTS if (path := tree / name).is_file()]
    if not wanted:
        return
    pins = deps.toolkit.pins if deps.toolkit else ()
    into = Packages(deps.python, environments.find_uv(), job.log)
    into.install((), Extra(pins, files=tuple(wanted)), "install the tree's requirements")
