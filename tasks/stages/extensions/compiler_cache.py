"""A compiler cache before the compilers of one extension, other machines behind it, and what came
of both.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from tasks.compiler_cache import cachereach, compilercache
from tasks.compiler_cache import distributed as distribute
from tasks.compiler_cache.compilercache import CacheMeasurement
from tasks.compiler_cache.distributed import CompileDistribution
from tasks.settings.workers import DISTRIBUTE_VARIABLE
from tasks.stages.env.job import CacheEnvironment
from tasks.stages.extensions.job import ExtensionJob
from tasks.system import files
from tasks.system.voice import print_line


def distribute_compilation(
    job: ExtensionJob, caching: CacheEnvironment, env: Mapping[str, str]
) -> contextlib.AbstractContextManager[CompileDistribution]:
    """The environment for the commands of the block, C and C++ of which other machines compile."""
    launcher = caching.cache.path if caching.cache.kind else job.workers.script
    compilers = [env.get(name, "") for name in ("CC", "CXX")]
    log = Path(job.work) / "workers.log"
    return distribute.distribute_compilations(job.workers, launcher, compilers, env, log)


@contextlib.contextmanager
def use_compiler_cache(
    job: ExtensionJob, caching: CacheEnvironment, env: Mapping[str, str]
) -> Iterator[CacheMeasurement]:
    """The environment for the commands of the block, and afterwards what the cache did for them,
    which is said here and written down by `build` with everything else of the run.

    What the extension's own settings say stays as it is.
    """
    wrapped = caching.wrapped
    if env.get(DISTRIBUTE_VARIABLE) and not caching.cache.kind:
        wrapped = _wrap_with_distributor(job.workers.script, env)
    wrappers = {name: str(path) for name, path in _write_wrapper_scripts(job, wrapped).items()}
    given = caching.build_compiler_environment(env, {**wrappers, **job.env})
    log = Path(job.work) / "cache.log"
    cache, measured = caching.cache, CacheMeasurement(given)
    try:
        with (
            cachereach.open_remote_environment(cache, job.cache_remote, given, job.work) as shared,
            compilercache.measure_cache(cache, shared, log) as measured,
        ):
            yield measured
    finally:
        if measured.counts:
            print_line(measured.counts.format_summary(cache))
            cachereach.disable_failing_cache(cache, job.cache_remote, measured.counts)


def _wrap_with_distributor(script: str, env: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """As the cache would stand there: with CUDA, CC is nvcc's host compiler."""
    names = ("CXX",) if env.get("CUDA_HOME") else ("CXX", "CC")
    return {name: (script, env[name]) for name in names if name in env}


def _write_wrapper_scripts(
    job: ExtensionJob, wrapped: Mapping[str, tuple[str, ...]]
) -> dict[str, Path]:
    """A script for each variable that has to name one program, called as the compiler is."""
    folder = Path(job.work) / "compilers"
    if not wrapped or shlex.quote(str(folder)) != str(folder):
        return {}  # torch before 2.14 puts CXX into a command line as it is
    files.create_owned_folder(folder)
    made = {}
    for variable, words in wrapped.items():
        path = folder / Path(words[-1]).name
        files.write_atomic(path, f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        path.chmod(0o755)
        made[variable] = path
    return made
