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
from tasks.compiler_cache.compilercache import Measured
from tasks.compiler_cache.distributed import Handed
from tasks.settings.workers import VARIABLE
from tasks.stages.env.job import Caching
from tasks.stages.extensions.job import ExtensionJob
from tasks.system import files
from tasks.system.voice import say


def handed_on(
    job: ExtensionJob, caching: Caching, env: Mapping[str, str]
) -> contextlib.AbstractContextManager[Handed]:
    """The environment for the commands of the block, C and C++ of which other machines compile."""
    launcher = caching.cache.path if caching.cache.kind else job.workers.script
    compilers = [env.get(name, "") for name in ("CC", "CXX")]
    log = Path(job.work) / "workers.log"
    return distribute.handing_on(job.workers, launcher, compilers, env, log)


@contextlib.contextmanager
def cached(job: ExtensionJob, caching: Caching, env: Mapping[str, str]) -> Iterator[Measured]:
    """The environment for the commands of the block, and afterwards what the cache did for them,
    which is said here and written down by `build` with everything else of the run.

    What the extension's own settings say stays as it is.
    """
    wrapped = caching.wrapped
    if env.get(VARIABLE) and not caching.cache.kind:
        wrapped = _handing_on(job.workers.script, env)
    wrappers = {name: str(path) for name, path in _wrappers(job, wrapped).items()}
    given = caching.over(env, {**wrappers, **job.env})
    log = Path(job.work) / "cache.log"
    cache, measured = caching.cache, Measured(given)
    try:
        with (
            cachereach.remote_environment(cache, job.cache_remote, given, job.work) as shared,
            compilercache.measure(cache, shared, log) as measured,
        ):
            yield measured
    finally:
        if measured.counts:
            say(measured.counts.told(cache))
            cachereach.look_back(cache, job.cache_remote, measured.counts)


def _handing_on(script: str, env: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """As the cache would stand there: with CUDA, CC is nvcc's host compiler."""
    names = ("CXX",) if env.get("CUDA_HOME") else ("CXX", "CC")
    return {name: (script, env[name]) for name in names if name in env}


def _wrappers(job: ExtensionJob, wrapped: Mapping[str, tuple[str, ...]]) -> dict[str, Path]:
    """A script for each variable that has to name one program, called as the compiler is."""
    folder = Path(job.work) / "compilers"
    if not wrapped or shlex.quote(str(folder)) != str(folder):
        return {}  # torch before 2.14 puts CXX into a command line as it is
    files.own(folder)
    made = {}
    for variable, words in wrapped.items():
        path = folder / Path(words[-1]).name
        files.write_atomic(path, f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        path.chmod(0o755)
        made[variable] = path
    return made
