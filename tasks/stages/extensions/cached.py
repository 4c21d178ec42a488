"""A compiler cache before the compilers of one extension, and what came of it."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from tasks.effects import cacheremote, compilercache, files
from tasks.effects.compilercache import Measured
from tasks.effects.voice import say
from tasks.stages.env.job import Caching
from tasks.stages.extensions.job import ExtensionJob


@contextlib.contextmanager
def cached(job: ExtensionJob, caching: Caching, env: Mapping[str, str]) -> Iterator[Measured]:
    """The environment for the commands of the block, and afterwards what the cache did for them,
    which is said here and written down by `build` with everything else of the run.

    What the extension's own settings say stays as it is.
    """
    wrappers = {name: str(path) for name, path in _wrappers(job, caching).items()}
    given = caching.over(env, {**wrappers, **job.env})
    given = cacheremote.joined(caching.cache, job.cache_remote, given)
    with compilercache.measure(caching.cache, given, Path(job.work) / "cache.log") as measured:
        yield measured
    if measured.counts:
        say(measured.counts.told(caching.cache))
        cacheremote.look_back(caching.cache, job.cache_remote, measured.counts)


def _wrappers(job: ExtensionJob, caching: Caching) -> dict[str, Path]:
    """A script for each variable that has to name one program, called as the compiler is."""
    folder = Path(job.work) / "compilers"
    if not caching.wrapped or shlex.quote(str(folder)) != str(folder):
        return {}  # torch before 2.14 puts CXX into a command line as it is
    files.own(folder)
    made = {}
    for variable, words in caching.wrapped.items():
        path = folder / Path(words[-1]).name
        files.write_atomic(path, f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        path.chmod(0o755)
        made[variable] = path
    return made
