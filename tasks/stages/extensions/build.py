"""One extension's wheel, compiled with the environment's compilers against the installed torch.

pip builds in the tree itself (from 21.3 on), so that what Ninja has made is still there when the
build goes on with fewer jobs. pip before 25.3 removes it first where the project has no
pyproject.toml, and scikit-build-core works in a folder that is gone afterwards: these begin anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePath

from tasks.compiler_cache.compilercache import Measured
from tasks.compiler_cache.distributed import Handed
from tasks.core.atwork import AtWork
from tasks.core.deps_model import Deps
from tasks.core.errors import CommandFailedError
from tasks.core.model import Command
from tasks.jobs import edgetimes
from tasks.jobs.crew import Crew, Take
from tasks.jobs.ninja import ninja
from tasks.jobs.turns import turn
from tasks.jobs.watch import Watch
from tasks.knowledge import load
from tasks.runlog import ninjalog, recording, runs
from tasks.runlog.record import Edge
from tasks.stages.env.job import Caching
from tasks.stages.extensions import sources
from tasks.stages.extensions.archguard import ArchGuard
from tasks.stages.extensions.compiler_cache import cached, handed_on
from tasks.stages.extensions.job import ExtensionJob
from tasks.stages.extensions.variables import (
    building,
    jobs_of,
    most_jobs,
    numbered,
    same_anywhere,
)
from tasks.system import files, manifests, shell
from tasks.system.voice import tick


def build(job: ExtensionJob, deps: Deps, tree: Path) -> Path:
    """The wheel of `tree`. Raises `CommandFailedError` with the compiler's first error, and
    `BuildError` if a target is left out.
    """
    landing = Path(job.work) / "landing"
    files.remove_owned(landing)
    files.own(landing)
    argv = wheel_argv(job, deps, tree)
    tick("compiling")
    env = same_anywhere(job, deps, building(job), sources.date(job))
    command = Command(argv, env, f"build {job.name}", log=job.log)
    _compile(job, deps, command, tree)
    (wheel,) = landing.glob("*.whl")
    return wheel


def wheel_argv(job: ExtensionJob, deps: Deps, tree: PurePath) -> tuple[str, ...]:
    """The command that builds it. Pure."""
    landing = job.work / "landing"
    options = ("-v", "--no-build-isolation", "--no-deps", "--no-cache-dir", "-w", str(landing))
    return (deps.python, "-m", "pip", "wheel", *options, str(tree / job.subdirectory))


def _compile(job: ExtensionJob, deps: Deps, command: Command, tree: Path) -> None:
    """Run it, again where its jobs were too many, and add a line to the runs, whatever came of
    it.
    """
    caching = manifests.read(job.caching, Caching)
    jobs = jobs_of(job, deps, caching, command.env)
    past = tuple(runs.read(job.runs))
    limit = most_jobs(job)
    maker = deps.toolkit.version if deps.toolkit else None
    crew = Crew(jobs, job.pool, runs.peaks(past), old_make=runs.old_make(past), limit=limit)
    alone = (
        crew.jobs is not None or limit != job.jobs
    )  # the jobs of other builds are counted separately
    started, handed = time.monotonic(), Handed(command.env)
    measured = Measured(command.env)
    try:
        with turn(alone=alone):
            started = time.monotonic()
            with (
                handed_on(job, caching, command.env) as handed,
                cached(job, caching, handed.env) as measured,
            ):
                crew.slots = handed.slots
                crew.watch = Watch(measured.hit_rate)
                guard = ArchGuard(job, load(Path(job.knowledge)), maker)
                crew.work(_start(job, crew, replace(command, env=measured.env), guard))
    finally:
        counts = measured.counts
        if counts:
            recording.cache(counts.hits, counts.misses)
        runs.add(
            job.runs,
            time.monotonic() - started,
            runs.weighed(crew.peaks),
            jobs=crew.allowed,
            cache=counts.noted(caching.cache) if counts else {},
            killed=list(crew.killed),
            old_make=crew.old_make,
            **handed.noted,
        )
        recording.edges(_edges(tree, crew))


def _edges(tree: Path, crew: Crew) -> Iterator[Edge]:
    """Read only once they are asked for, as a log that cannot be read must not hide a failure."""
    yield from edgetimes.edges(crew.heard, _made(tree, crew.heard), crew.peaks)


def _made(tree: Path, heard: edgetimes.Heard) -> dict[str, ninjalog.Made]:
    """What Ninja made in the tree, wherever the extension has it work: as far as it was heard,
    since logs of earlier builds lie there as well.
    """
    logs = tree.rglob(".ninja_log") if heard.made else ()
    found = [item for log in logs for item in ninjalog.read(log.parent).items()]
    return {output: one for output, one in found if output in heard.made}


def _start(
    job: ExtensionJob, crew: Crew, command: Command, guard: ArchGuard
) -> Callable[[int | None, Mapping[str, str], Take], None]:
    def look() -> AtWork:
        guard.look()
        return crew.look()

    def start(jobs: int | None, more: Mapping[str, str], take: Take) -> None:
        env = {**numbered(job, command.env, jobs), **more}
        with ninja.watched(look) as follow:

            def each(line: str) -> None:
                take(line)
                follow(line)
                guard.take(line)

            try:
                shell.run(replace(command, env=env), each, guard.stop)
            except CommandFailedError:
                if not guard.error:
                    raise
        if guard.error:
            raise guard.error

    return start
