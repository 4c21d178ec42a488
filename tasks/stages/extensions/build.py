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

from tasks.compiler_cache.compilercache import CacheMeasurement
from tasks.compiler_cache.distributed import CompileDistribution
from tasks.core.atwork import BuildActivity
from tasks.core.deps_model import DepsManifest
from tasks.core.errors import CommandFailedError
from tasks.core.model import Command
from tasks.jobs import edgetimes
from tasks.jobs.crew import JobScheduler, LineHandler
from tasks.jobs.ninja import ninja
from tasks.jobs.turns import reserve_build_slot
from tasks.jobs.watch import ProgressMonitor
from tasks.knowledge import load_knowledge
from tasks.runlog import ninjalog, recording, runs
from tasks.runlog.record import Edge
from tasks.stages.env.job import CacheEnvironment
from tasks.stages.extensions import sources
from tasks.stages.extensions.archguard import ArchGuard
from tasks.stages.extensions.compiler_cache import distribute_compilation, use_compiler_cache
from tasks.stages.extensions.job import ExtensionJob
from tasks.stages.extensions.variables import (
    add_reproducible_flags,
    compute_job_count,
    find_job_limit,
    read_build_environment,
    set_job_count,
)
from tasks.system import files, manifests, shell
from tasks.system.voice import show_progress


def build_extension(job: ExtensionJob, deps: DepsManifest, tree: Path) -> Path:
    """The wheel of `tree`. Raises `CommandFailedError` with the compiler's first error, and
    `BuildError` if a target is left out.
    """
    landing = Path(job.work) / "landing"
    files.remove_owned(landing)
    files.create_owned_folder(landing)
    argv = build_wheel_command(job, deps, tree)
    show_progress("compiling")
    env = add_reproducible_flags(
        job, deps, read_build_environment(job), sources.read_commit_date(job)
    )
    command = Command(argv, env, f"build {job.name}", log=job.log)
    _compile_extension(job, deps, command, tree)
    (wheel,) = landing.glob("*.whl")
    return wheel


def build_wheel_command(job: ExtensionJob, deps: DepsManifest, tree: PurePath) -> tuple[str, ...]:
    """The command that builds it. Pure."""
    landing = job.work / "landing"
    options = ("-v", "--no-build-isolation", "--no-deps", "--no-cache-dir", "-w", str(landing))
    return (deps.python, "-m", "pip", "wheel", *options, str(tree / job.subdirectory))


def _compile_extension(job: ExtensionJob, deps: DepsManifest, command: Command, tree: Path) -> None:
    """Run it, again where its jobs were too many, and add a line to the runs, whatever came of
    it.
    """
    caching = manifests.read_manifest(job.caching, CacheEnvironment)
    jobs = compute_job_count(job, deps, caching, command.env)
    past = tuple(runs.read_history(job.runs))
    limit = find_job_limit(job)
    maker = deps.toolkit.version if deps.toolkit else None
    crew = JobScheduler(
        jobs, job.pool, runs.collect_peaks(past), old_make=runs.has_old_make(past), limit=limit
    )
    alone = (
        crew.jobs is not None or limit != job.jobs
    )  # the jobs of other builds are counted separately
    started, handed = time.monotonic(), CompileDistribution(command.env)
    measured = CacheMeasurement(command.env)
    try:
        with reserve_build_slot(alone=alone):
            started = time.monotonic()
            with (
                distribute_compilation(job, caching, command.env) as handed,
                use_compiler_cache(job, caching, handed.env) as measured,
            ):
                crew.slots = handed.slots
                crew.progress_monitor = ProgressMonitor(measured.hit_rate)
                guard = ArchGuard(job, load_knowledge(Path(job.knowledge)), maker)
                crew.run_build(
                    _build_start_callback(job, crew, replace(command, env=measured.env), guard)
                )
    finally:
        counts = measured.counts
        if counts:
            recording.record_cache(counts.hits, counts.misses)
        runs.append_run(
            job.runs,
            time.monotonic() - started,
            runs.build_peak_entries(crew.peaks),
            jobs=crew.allowed,
            cache=counts.build_record(caching.cache) if counts else {},
            killed=list(crew.killed),
            old_make=crew.old_make,
            **handed.noted,
        )
        recording.record_edges(_read_edges(tree, crew))


def _read_edges(tree: Path, crew: JobScheduler) -> Iterator[Edge]:
    """Read only once they are asked for, as a log that cannot be read must not hide a failure."""
    yield from edgetimes.build_edges(
        crew.edge_times, _read_ninja_outputs(tree, crew.edge_times), crew.peaks
    )


def _read_ninja_outputs(
    tree: Path, heard: edgetimes.EdgeTimes
) -> dict[str, ninjalog.NinjaLogEntry]:
    """What Ninja made in the tree, wherever the extension has it work: as far as it was heard,
    since logs of earlier builds lie there as well.
    """
    logs = tree.rglob(".ninja_log") if heard.finished else ()
    found = [item for log in logs for item in ninjalog.read_ninja_log(log.parent).items()]
    return {output: one for output, one in found if output in heard.finished}


def _build_start_callback(
    job: ExtensionJob, crew: JobScheduler, command: Command, guard: ArchGuard
) -> Callable[[int | None, Mapping[str, str], LineHandler], None]:
    def read_activity() -> BuildActivity:
        guard.check_build_file()
        return crew.sample_activity()

    def start_build(jobs: int | None, more: Mapping[str, str], take: LineHandler) -> None:
        env = {**set_job_count(job, command.env, jobs), **more}
        with ninja.report_build_progress(read_activity) as follow:

            def forward_line(line: str) -> None:
                take(line)
                follow(line)
                guard.check_line(line)

            try:
                shell.run_command(replace(command, env=env), forward_line, guard.stop)
            except CommandFailedError:
                if not guard.error:
                    raise
        if guard.error:
            raise guard.error

    return start_build
