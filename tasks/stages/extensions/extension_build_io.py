"""Build the wheel of one extension against the installed torch.

pip builds in the source tree, so that a retry with fewer jobs reuses Ninja's outputs:
pip 25.3 always, pip 21.3 and later with a pyproject.toml. scikit-build-core never reuses outputs.
"""

import contextlib
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePath

from tasks.compiler_cache import distributed_compilation_io, remote_cache_io
from tasks.compiler_cache.cache_program_io import CacheMeasurement, measure_cache
from tasks.core.build_activity import BuildActivity
from tasks.core.deps_model import DepsManifest
from tasks.core.errors import CommandFailedError
from tasks.core.model import Command
from tasks.jobs import ninja_steps_io, progress_io
from tasks.jobs.job_scheduler_io import JobScheduler, LineHandler, reserve_build_slot
from tasks.jobs.progress_io import ProgressMonitor
from tasks.knowledge.knowledge_files_io import load_knowledge
from tasks.runlog import build_history_io, run_record_io
from tasks.runlog.run_record import Edge
from tasks.settings.compile_workers import DISTRIBUTE_VARIABLE
from tasks.stages.env.model import CacheEnvironment
from tasks.stages.extensions import extension_environment_io, extension_sources_io
from tasks.stages.extensions.extension_code_io import ArchGuard
from tasks.stages.extensions.model import ExtensionJob
from tasks.system import files, manifests, shell
from tasks.system.output import print_line, show_progress


@contextlib.contextmanager
def use_compiler_cache(
    job: ExtensionJob, caching: CacheEnvironment, env: Mapping[str, str]
) -> Iterator[CacheMeasurement]:
    """Yield a measurement with an `env` that enables the cache. Print the counts after the block.

    Variables that the extension sets take precedence.
    """
    wrapped = caching.wrapped
    if env.get(DISTRIBUTE_VARIABLE) and not caching.cache.kind:
        # with CUDA, CC is not wrapped, with or without a cache: it is nvcc's host compiler
        names = ("CXX",) if env.get("CUDA_HOME") else ("CXX", "CC")
        wrapped = {name: (job.workers.script, env[name]) for name in names if name in env}
    scripts = _write_wrapper_scripts(job, wrapped)
    cached_env = caching.build_compiler_environment(env, {**scripts, **job.env})
    cache, measured = caching.cache, CacheMeasurement(cached_env)
    remote = remote_cache_io.open_remote_environment(cache, job.cache_remote, cached_env, job.work)
    try:
        with (
            remote as cached_build,
            measure_cache(cache, cached_build, Path(job.work, "cache.log")) as measured,
        ):
            yield measured
    finally:
        if measured.counts:
            print_line(measured.counts.format_summary(cache))
            remote_cache_io.disable_failing_cache(cache, job.cache_remote, measured.counts)


def _write_wrapper_scripts(
    job: ExtensionJob, wrapped: Mapping[str, tuple[str, ...]]
) -> dict[str, str]:
    """Write a wrapper script for each variable in `wrapped`; return the paths by variable."""
    folder = Path(job.work, "compilers")
    if not wrapped or shlex.quote(str(folder)) != str(folder):
        return {}  # torch before 2.14 does not quote CXX in a command line
    files.create_owned_folder(folder)
    scripts = {}
    for variable, words in wrapped.items():
        path = folder / Path(words[-1]).name
        files.write_atomic(path, f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        path.chmod(0o755)
        scripts[variable] = str(path)
    return scripts


def build_extension(job: ExtensionJob, deps: DepsManifest, tree: Path) -> Path:
    """Build the wheel of the source `tree` and return its path, or raise the first build error."""
    landing = Path(job.work, "landing")
    files.remove_owned(landing)
    files.create_owned_folder(landing)
    show_progress("compiling")
    date = extension_sources_io.read_commit_date(job)
    base = extension_environment_io.read_build_environment(job)
    env = extension_environment_io.add_reproducible_flags(job, deps, base, date)
    argv = build_wheel_command(job, deps, tree)
    _compile_extension(job, deps, Command(argv, env, f"build {job.name}", log=job.log), tree)
    (wheel,) = landing.glob("*.whl")
    return wheel


def build_wheel_command(job: ExtensionJob, deps: DepsManifest, tree: PurePath) -> tuple[str, ...]:
    """Return the pip command that builds the wheel."""
    landing = job.work / "landing"
    options = ("-v", "--no-build-isolation", "--no-deps", "--no-cache-dir", "-w", str(landing))
    return (deps.python, "-m", "pip", "wheel", *options, str(tree / job.subdirectory))


def _compile_extension(job: ExtensionJob, deps: DepsManifest, command: Command, tree: Path) -> None:
    """Run the build, if needed again with fewer jobs, and add it to the build history."""
    layout = job.layout
    path = layout.compute_manifest_path("cache-env")
    caching = manifests.read_manifest(path, CacheEnvironment)
    jobs = extension_environment_io.compute_job_count(job, deps, caching, command.env)
    past = tuple(build_history_io.read_history(job.runs))
    limit = extension_environment_io.find_job_limit(job)
    peaks, old_make = build_history_io.collect_peaks(past), build_history_io.has_old_make(past)
    scheduler = JobScheduler(jobs, layout.jobserver, peaks, old_make=old_make, limit=limit)
    # True if the jobs of other builds are counted separately
    alone = scheduler.jobs is not None or limit != job.jobs
    launcher = caching.cache.path if caching.cache.kind else job.workers.script
    compilers = [command.env.get(name, "") for name in ("CC", "CXX")]
    workers_log = Path(job.work) / "workers.log"
    start_time = time.monotonic()
    distribution = distributed_compilation_io.CompileDistribution(command.env)
    measured = CacheMeasurement(command.env)
    try:
        with reserve_build_slot(alone=alone):
            start_time = time.monotonic()
            with (
                distributed_compilation_io.distribute_compilations(
                    job.workers, launcher, compilers, command.env, workers_log
                ) as distribution,
                use_compiler_cache(job, caching, distribution.env) as measured,
            ):
                scheduler.slots = distribution.slots
                scheduler.progress_monitor = ProgressMonitor(measured.hit_rate)
                toolkit_version = deps.toolkit.version if deps.toolkit else None
                knowledge = load_knowledge(Path(job.knowledge))
                guard = ArchGuard(job, knowledge, toolkit_version)
                cached_command = replace(command, env=measured.env)
                scheduler.run_build(_build_start_callback(job, scheduler, cached_command, guard))
    finally:
        if counts := measured.counts:
            run_record_io.record_cache(counts.hits, counts.misses)
        build_history_io.append_run(
            job.runs,
            time.monotonic() - start_time,
            build_history_io.build_peak_entries(scheduler.peaks),
            jobs=scheduler.allowed,
            cache=counts.build_record(caching.cache) if counts else {},
            killed=list(scheduler.killed),
            old_make=scheduler.old_make,
            **distribution.noted,
        )
        run_record_io.record_edges(_read_edges(tree, scheduler))


def _read_edges(tree: Path, scheduler: JobScheduler) -> Iterator[Edge]:
    """Yield the Ninja edges of this build, from all Ninja logs in the tree."""
    finished = scheduler.edge_times.finished
    logs = tree.rglob(".ninja_log") if finished else ()
    edges = (item for log in logs for item in build_history_io.read_ninja_log(log.parent).items())
    entries = {output: edge for output, edge in edges if output in finished}
    yield from ninja_steps_io.build_edges(scheduler.edge_times, entries, scheduler.peaks)


def _build_start_callback(
    job: ExtensionJob, scheduler: JobScheduler, command: Command, guard: ArchGuard
) -> Callable[[int | None, Mapping[str, str], LineHandler], None]:
    def read_activity() -> BuildActivity:
        guard.check_build_file()
        return scheduler.sample_activity()

    def start_build(jobs: int | None, more: Mapping[str, str], take: LineHandler) -> None:
        env = {**extension_environment_io.set_job_count(job, command.env, jobs), **more}
        with progress_io.report_build_progress(read_activity) as follow:

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
