"""Run the tree's build backend in the folder that is kept, and say what came out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from tasks.compiler_cache import cachereach, compilercache
from tasks.compiler_cache import distributed as distribute
from tasks.core.atwork import find_slowest_outputs
from tasks.core.deps_model import CompilerCache
from tasks.core.model import Command
from tasks.jobs import edgetimes
from tasks.jobs.buildlines import is_warning
from tasks.jobs.crew import JOB_COUNT_VARIABLES, JobScheduler, LineHandler
from tasks.jobs.forecast import Forecast
from tasks.jobs.ninja import ninja, ninjaplan
from tasks.jobs.watch import ProgressMonitor
from tasks.runlog import ninjalog, recording, runs
from tasks.stages.compile import buildfolder, flashattention, products
from tasks.stages.compile.bench import BuildContext, read_build_context, resolve_build_folder
from tasks.stages.compile.decision import FolderDecision, build_reconfigure_arguments
from tasks.stages.compile.job import CompileJob, CompileResult
from tasks.stages.compile.told import CompileStatistics
from tasks.stages.compile.unused import UnusedVariables
from tasks.stages.compile.work import BuildStep, create_reconfigure_step
from tasks.stages.env.job import LAUNCHER_VARIABLES
from tasks.stages.source.job import SourceTree
from tasks.system import files, manifests, shell, space
from tasks.system.voice import print_line, print_warning
from tasks.wheels.provenance.made import add_source_date

_MANAGED_VARIABLES = {"USE_CUDA"}  # given to every tree, whether a person wrote it or not


def run(job: CompileJob) -> tuple[CompileResult]:
    """Compile what is not up to date by Ninja's judgement, in a folder that is configured for what
    is asked.

    Raises `CommandFailedError` with the first error, and `BuildError` where CMake does not take
    what is asked for, or where a folder would have to be wiped that is not ours.
    """
    folder = resolve_build_folder(job)
    space.require_minimum_space(folder, "compiling PyTorch")
    files.create_owned_folder(job.build)
    with files.lock_folder(folder):  # of the tree, where another profile may be at work
        bench = read_build_context(job)
        told = CompileStatistics(bench.choose_action())
        print_line(str(told.decision))
        if told.decision.action == "wipe":
            buildfolder.wipe_build_folder(folder, told.decision)
            bench = read_build_context(job)  # which takes the compiler cache that is here now
        _build_and_record(bench, job, told)
        return (_create_result(bench, job),)


def _build_and_record(bench: BuildContext, job: CompileJob, told: CompileStatistics) -> None:
    """Configure and compile, and add what came of it to the runs, whatever that was."""
    started, before = time.monotonic(), ninjalog.read_ninja_log(bench.folder)
    env, log = _compute_environment(bench, job), Path(job.log).with_suffix(".cache.log")
    cache = _find_active_cache(bench, job)
    handed = distribute.CompileDistribution(env)
    measured = compilercache.CacheMeasurement(env)
    try:
        with (
            cachereach.open_remote_environment(cache, job.cache_remote, env, job.build) as shared,
            _start_distribution(bench, job, shared) as handed,
            compilercache.measure_cache(cache, handed.env, log) as measured,
        ):
            _configure_folder(bench, told, job, measured.env)
            _compile_folder(bench, job, told, (measured, handed.slots), before)
    finally:
        if measured.counts and measured.counts.hits + measured.counts.misses:
            told.cache = measured.counts.build_record(cache)
            recording.record_cache(measured.counts.hits, measured.counts.misses)
            print_line(measured.counts.format_summary(cache))
            cachereach.disable_failing_cache(cache, job.cache_remote, measured.counts)
        made = ninjalog.find_new_entries(before, ninjalog.read_ninja_log(bench.folder))
        objects, seconds = runs.build_object_entries(made, told.peaks), time.monotonic() - started
        runs.append_run(job.runs, seconds, objects, **told.build_run_facts(), **handed.noted)
        recording.record_edges(edgetimes.build_edges(told.edge_times, made, told.peaks))
    if told.warnings:
        print_line(f"{told.warnings:,} warnings of compilers are in {job.log}")
    if slow := find_slowest_outputs(runs.collect_durations(made)):
        print_line(f"slowest: {', '.join(map(str, slow))}")


def _compute_environment(bench: BuildContext, job: CompileJob) -> dict[str, str]:
    """The time of the source is none of what a folder is configured from: each commit would have
    everything compiled again.
    """
    env = bench.environment.build_child_environment(shell.build_host_env())
    return add_source_date(env, manifests.read_manifest(job.source, SourceTree).date)


def _find_active_cache(bench: BuildContext, job: CompileJob) -> CompilerCache:
    """The compiler cache that is at work in the folder, which need not be the one of deps."""
    found = (
        manifests.read_manifest(job.cache, CompilerCache)
        if Path(job.cache).exists()
        else CompilerCache()
    )
    launcher = bench.environment.set.get("CMAKE_CXX_COMPILER_LAUNCHER", "")
    if launcher and compilercache.parse_cache_kind(launcher) != found.kind:
        return compilercache.find_cache(launcher) or CompilerCache()
    return found


def _start_distribution(
    bench: BuildContext, job: CompileJob, env: Mapping[str, str]
) -> AbstractContextManager[distribute.CompileDistribution]:
    launcher = bench.environment.set.get("CMAKE_CXX_COMPILER_LAUNCHER", "")
    compilers = [env.get(name, "") for name in ("CC", "CXX")]
    log = Path(job.log).with_suffix(".workers.log")
    return distribute.distribute_compilations(job.workers, launcher, compilers, env, log)


def _configure_folder(
    bench: BuildContext, told: CompileStatistics, job: CompileJob, env: Mapping[str, str]
) -> None:
    """Make the folder one that is configured for what is asked, and see that it is."""
    before = bench.before
    if told.decision.action == "reuse":
        if not buildfolder.has_configure_note(bench.folder):
            buildfolder.require_cmake_values(bench.folder, bench.rules, bench.requested)
        buildfolder.write_configure_note(bench.folder, bench.rules, before, bench.requested)
        return
    known = _MANAGED_VARIABLES | flashattention.find_forwarded_variables(bench.work.tree)
    unused = UnusedVariables(bench.requested.variables.keys() - known - set(LAUNCHER_VARIABLES))
    step = _select_configure_step(bench, told.decision)
    if told.decision.action != "reconfigure":
        before = replace(before, toolchain=bench.requested.toolchain)
    buildfolder.write_pending_note(bench.folder, before, bench.requested)
    follow = ninja.create_line_handler()

    def read_configure_line(line: str) -> None:
        unused.read_line(line)
        follow(line)

    told.configure_seconds = _run_step(
        replace(step, env={**env, **step.env}), bench, job, read_configure_line
    )
    buildfolder.require_cmake_values(bench.folder, bench.rules, bench.requested)
    buildfolder.write_configure_note(bench.folder, bench.rules, before, bench.requested)
    if unused.names:
        print_warning(
            f"this tree does not know {', '.join(unused.names)}: see build.flags and build.env"
        )


def _select_configure_step(bench: BuildContext, decision: FolderDecision) -> BuildStep:
    """The command that makes the folder what is asked."""
    if decision.action == "reconfigure":
        given = build_reconfigure_arguments(bench.rules, decision, bench.requested)
        return create_reconfigure_step(bench.work, bench.folder, given)
    buildfolder.prepare_build_folder(bench.folder)
    return bench.backend.create_configure_step(bench.work)


def _compile_folder(
    bench: BuildContext,
    job: CompileJob,
    told: CompileStatistics,
    given: tuple[compilercache.CacheMeasurement, int],
    before: Mapping[str, ninjalog.NinjaLogEntry],
) -> None:
    """Run Ninja; what its objects cost before tells how many fit, and how long it will take.
    `given` are what counts the cache's hits, with the environment, and the slots of other machines.
    """
    measured, slots = given
    past = tuple(runs.read_history(job.runs))
    plan = ninjaplan.preview_ninja_build(bench.work.ninja, bench.folder, job.target or "all")
    costs = {**runs.collect_costs(past), **{name: made.seconds for name, made in before.items()}}
    forecast = Forecast(plan.outputs if plan else (), costs)
    growing = ninjalog.NinjaLogFollower(bench.folder, before)
    watch = ProgressMonitor(
        measured.hit_rate, lambda: runs.collect_durations(growing.read_new_entries())
    )
    met = runs.has_old_make(past)
    limit = bench.max_jobs
    crew = JobScheduler(
        bench.work.jobs,
        job.pool,
        runs.collect_peaks(past),
        progress_monitor=watch,
        old_make=met,
        limit=limit,
    )
    crew.slots = slots

    def start_ninja(jobs: int | None, more: Mapping[str, str], take: LineHandler) -> None:
        step = bench.backend.create_compile_step(replace(bench.work, jobs=jobs))
        env_now = {**measured.env, **step.env, **more}
        if jobs is None:
            env_now = {
                name: value for name, value in env_now.items() if name not in JOB_COUNT_VARIABLES
            }
        with ninja.report_build_progress(crew.sample_activity, forecast) as follow:

            def read_ninja_line(line: str) -> None:
                take(line)
                follow(line)
                told.warnings += is_warning(line)

            told.ninja_seconds += _run_step(replace(step, env=env_now), bench, job, read_ninja_line)

    try:
        crew.run_build(start_ninja)
    finally:
        told.peaks, told.jobs, told.killed = crew.peaks, crew.allowed, crew.killed
        told.old_make, told.edge_times = crew.old_make, crew.edge_times


def _run_step(step: BuildStep, bench: BuildContext, job: CompileJob, take: LineHandler) -> float:
    """Run it; the seconds it took."""
    started = time.monotonic()
    shell.run_command(
        Command(step.argv, step.env, step.description, cwd=bench.work.tree, log=job.log), take
    )
    return time.monotonic() - started


def _create_result(bench: BuildContext, job: CompileJob) -> CompileResult:
    work, backend = bench.work, bench.backend
    wheel = backend.create_wheel_step(work)
    variables = {key: value for key, value in wheel.env.items() if key not in JOB_COUNT_VARIABLES}
    known = Path(job.runs).with_name("libraries.json")
    return CompileResult(
        backend=bench.name,
        tree=str(work.tree),
        build=str(bench.folder),
        target=work.target,
        products=products.compute_library_digest(
            backend.list_output_folders(work), work.tree, known
        ),
        wheel=wheel.argv,
        variables={**variables, **bench.wheel_variables},
    )
