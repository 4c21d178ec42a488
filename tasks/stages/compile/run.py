"""Run the `compile` stage: build PyTorch, and record the build in the build history."""

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import dropwhile, islice, takewhile
from pathlib import Path

from tasks.compiler_cache import cache_program_io
from tasks.compiler_cache import distributed_compilation_io as distribute
from tasks.compiler_cache.remote_cache_io import disable_failing_cache, open_remote_environment
from tasks.core.build_activity import find_slowest_outputs
from tasks.core.deps_model import CompilerCache
from tasks.core.model import Command, Json
from tasks.jobs import ninja_steps_io, progress_io
from tasks.jobs.build_output import is_warning
from tasks.jobs.forecast import Forecast
from tasks.jobs.job_scheduler_io import JOB_COUNT_VARIABLES, JobScheduler, LineHandler
from tasks.jobs.ninja_steps_io import EdgeTimes
from tasks.jobs.progress_io import ProgressMonitor
from tasks.runlog import build_history_io, run_record_io
from tasks.stages.compile import build_context_io, build_folder_io
from tasks.stages.compile.build_backends import create_reconfigure_step
from tasks.stages.compile.build_context_io import BuildContext, read_build_context
from tasks.stages.compile.build_folder_decision import FolderDecision, build_reconfigure_arguments
from tasks.stages.compile.model import CompileJob, CompileResult
from tasks.stages.env.model import LAUNCHER_VARIABLES
from tasks.stages.source.model import SourceTree
from tasks.system import files, manifests, shell
from tasks.system.output import print_line, print_warning
from tasks.wheels.build_inputs import add_source_date


@dataclass
class CompileStatistics:
    """The statistics of a build in progress.

    `peaks` is the peak memory in MiB by output file. `killed` are the output files whose compilers
    ran out of memory. `old_make` is True if the build runs a make without jobserver support.
    `warnings` is the number of output lines with a warning.
    """

    decision: FolderDecision
    peaks: Mapping[str, int] = field(default_factory=dict)
    edge_times: EdgeTimes = field(default_factory=EdgeTimes)
    jobs: int = 0
    cache: Mapping[str, Json] = field(default_factory=dict)
    killed: tuple[str, ...] = ()
    old_make: bool = False
    warnings: int = 0
    configure_seconds: float = 0.0
    ninja_seconds: float = 0.0

    def build_run_facts(self) -> dict[str, Json]:
        """Return what the build history records about this build."""
        return {
            "configure_seconds": round(self.configure_seconds, 3),
            "ninja_seconds": round(self.ninja_seconds, 3),
            "decision": self.decision.action,
            "changes": [str(change) for change in self.decision.changes],
            "jobs": self.jobs,
            "cache": dict(self.cache),
            "warnings": self.warnings,
            "killed": list(self.killed),
            "old_make": self.old_make,
        }


_UNUSED_HEADING = "Manually-specified variables were not used by the project:"


def list_unused_variables(lines: Iterable[str], requested: Collection[str]) -> list[str]:
    """Return the `requested` variables that CMake reports as unused."""
    listed = takewhile(
        lambda line: line.startswith(" ") or not line.strip(),
        islice(dropwhile(lambda line: _UNUSED_HEADING not in line, lines), 1, None),
    )
    return [name for line in listed if (name := line.strip()) in requested]


def run(job: CompileJob) -> tuple[CompileResult]:
    """Configure the build folder as requested and compile everything that Ninja finds out of date.

    Raises `CommandFailedError` if a command fails. Raises `TorchyardError` if CMake rejects a
    value, or if a folder that torchyard did not create would have to be wiped.
    """
    folder = build_context_io.resolve_build_folder(job)
    files.require_minimum_space(folder, "compiling PyTorch")
    files.create_owned_folder(job.build)
    with files.lock_folder(folder):  # a folder in the tree may be used by another profile, too
        context = read_build_context(job)
        statistics = CompileStatistics(context.choose_action())
        print_line(str(statistics.decision))
        if statistics.decision.action == "wipe":
            build_folder_io.wipe_build_folder(folder, statistics.decision)
            context = read_build_context(job)  # without the old folder's compiler cache
        _build_and_record(context, job, statistics)
        return (_create_result(context, job),)


def _build_and_record(
    context: BuildContext, job: CompileJob, statistics: CompileStatistics
) -> None:
    """Configure and compile, and append the run to the build history, even if it failed."""
    started, old_log = time.monotonic(), build_history_io.read_ninja_log(context.folder)
    source = manifests.read_manifest(job.layout.compute_manifest_path("source"), SourceTree)
    env = context.environment.build_child_environment(shell.build_host_env())
    # the date changes with every commit, so the configure fingerprint omits it
    env = add_source_date(env, source.date)
    launcher = context.environment.set.get("CMAKE_CXX_COMPILER_LAUNCHER", "")
    cache = _find_active_cache(job, launcher)
    log = Path(job.log)
    distribution = distribute.CompileDistribution(env)
    measurement = cache_program_io.CacheMeasurement(env)
    try:
        remote_env = open_remote_environment(cache, job.cache_remote, env, job.build)
        with (
            remote_env as coordinator,
            distribute.distribute_compilations(
                job.workers,
                launcher,
                [coordinator.get(name, "") for name in ("CC", "CXX")],
                coordinator,
                log.with_suffix(".workers.log"),
            ) as distribution,
            cache_program_io.measure_cache(
                cache, distribution.env, log.with_suffix(".cache.log")
            ) as measurement,
        ):
            _configure_folder(context, statistics, job, measurement.env)
            _compile_folder(context, job, statistics, (measurement, distribution.slots), old_log)
    finally:
        if (counts := measurement.counts) and counts.hits + counts.misses:
            statistics.cache = counts.build_record(cache)
            run_record_io.record_cache(counts.hits, counts.misses)
            print_line(counts.format_summary(cache))
            disable_failing_cache(cache, job.cache_remote, counts)
        new_log = build_history_io.read_ninja_log(context.folder)
        new_entries = build_history_io.find_new_entries(old_log, new_log)
        objects = build_history_io.build_object_entries(new_entries, statistics.peaks)
        seconds, facts = time.monotonic() - started, statistics.build_run_facts()
        build_history_io.append_run(job.runs, seconds, objects, **facts, **distribution.noted)
        edges = ninja_steps_io.build_edges(statistics.edge_times, new_entries, statistics.peaks)
        run_record_io.record_edges(edges)
    if statistics.warnings:
        print_line(f"the compilers printed {statistics.warnings:,} warnings: see {job.log}")
    if slow := find_slowest_outputs(build_history_io.collect_durations(new_entries)):
        print_line(f"slowest: {', '.join(map(str, slow))}")


def _find_active_cache(job: CompileJob, launcher: str) -> CompilerCache:
    """Return the compiler cache that the build folder uses: that of `launcher`, if set."""
    path = Path(job.layout.compute_manifest_path("cache"))
    cache = manifests.read_manifest(path, CompilerCache) if path.exists() else CompilerCache()
    if launcher and cache_program_io.parse_cache_kind(launcher) != cache.kind:
        return cache_program_io.find_cache(launcher) or CompilerCache()
    return cache


def _configure_folder(
    context: BuildContext, statistics: CompileStatistics, job: CompileJob, env: Mapping[str, str]
) -> None:
    """Configure or reconfigure the build folder, then verify its CMake cache."""
    folder, rules, requested = context.folder, context.rules, context.requested
    configured, action = context.before, statistics.decision.action
    if action == "reuse":
        if not build_folder_io.resolve_note_path(folder).exists():
            build_folder_io.require_cmake_values(folder, rules, requested)
        build_folder_io.write_configure_note(folder, rules, configured, requested)
        return
    if action == "reconfigure":
        arguments = build_reconfigure_arguments(rules, statistics.decision, requested)
        step = create_reconfigure_step(context.work, folder, arguments)
    else:
        build_folder_io.prepare_build_folder(folder)
        step = context.backend.create_configure_step(context.work)
        configured = replace(configured, toolchain=requested.toolchain)
    build_folder_io.write_pending_note(folder, configured, requested)
    print_output, lines = progress_io.create_line_handler(), list[str]()

    def read_configure_line(line: str) -> None:
        lines.append(line)
        print_output(line)

    step = replace(step, env={**env, **step.env})
    statistics.configure_seconds = _run_step(step, context, job, read_configure_line)
    build_folder_io.require_cmake_values(folder, rules, requested)
    build_folder_io.write_configure_note(folder, rules, configured, requested)
    # torchyard sets these for every build, and CMake may report them as unused
    known = {"USE_CUDA", *LAUNCHER_VARIABLES}
    if build_context_io.has_kernel_pool(context.work.tree):
        known.add(build_context_io.KERNEL_JOBS_VARIABLE)
    if unused := list_unused_variables(lines, requested.variables.keys() - known):
        names = ", ".join(unused)
        print_warning(f"this PyTorch tree does not use {names}: check build.flags and build.env")


def _compile_folder(
    context: BuildContext,
    job: CompileJob,
    statistics: CompileStatistics,
    resources: tuple[cache_program_io.CacheMeasurement, int],
    before: Mapping[str, build_history_io.NinjaLogEntry],
) -> None:
    """Run Ninja under the job scheduler.

    `resources` has the cache measurement and the number of jobs that workers can run. `before` is
    Ninja's log before the build.
    """
    measurement, slots = resources
    history = tuple(build_history_io.read_history(job.runs))
    plan = context.preview_ninja_build()
    costs = build_history_io.collect_costs(history)
    durations = {**costs, **{name: entry.seconds for name, entry in before.items()}}
    forecast = Forecast(plan.outputs if plan else (), durations)
    log_follower = build_history_io.NinjaLogFollower(context.folder, before)
    scheduler = JobScheduler(
        context.work.jobs,
        job.layout.jobserver,
        build_history_io.collect_peaks(history),
        progress_monitor=ProgressMonitor(
            measurement.hit_rate,
            lambda: build_history_io.collect_durations(log_follower.read_new_entries()),
        ),
        old_make=build_history_io.has_old_make(history),
        limit=context.max_jobs,
        slots=slots,
    )

    def start_ninja(jobs: int | None, more: Mapping[str, str], record_line: LineHandler) -> None:
        step = context.backend.create_compile_step(replace(context.work, jobs=jobs))
        env = {**measurement.env, **step.env, **more}
        if jobs is None:
            env = {name: value for name, value in env.items() if name not in JOB_COUNT_VARIABLES}
        with progress_io.report_build_progress(scheduler.sample_activity, forecast) as print_output:

            def read_ninja_line(line: str) -> None:
                record_line(line)
                print_output(line)
                statistics.warnings += is_warning(line)

            seconds = _run_step(replace(step, env=env), context, job, read_ninja_line)
            statistics.ninja_seconds += seconds

    try:
        scheduler.run_build(start_ninja)
    finally:
        statistics.peaks, statistics.jobs = scheduler.peaks, scheduler.allowed
        statistics.killed, statistics.old_make = scheduler.killed, scheduler.old_make
        statistics.edge_times = scheduler.edge_times


def _run_step(
    step: Command, context: BuildContext, job: CompileJob, read_line: LineHandler
) -> float:
    """Run the command in the source tree and return its duration in seconds."""
    started = time.monotonic()
    shell.run_command(replace(step, cwd=context.work.tree, log=job.log), read_line)
    return time.monotonic() - started


def _create_result(context: BuildContext, job: CompileJob) -> CompileResult:
    work, backend, cache = context.work, context.backend, Path(job.runs).with_name("libraries.json")
    wheel, libraries = backend.create_wheel_step(work), backend.list_output_folders(work)
    variables = {key: value for key, value in wheel.env.items() if key not in JOB_COUNT_VARIABLES}
    return CompileResult(
        backend=context.name,
        tree=str(work.tree),
        build=str(context.folder),
        target=work.target,
        products=build_folder_io.compute_library_digest(libraries, work.tree, cache),
        wheel=wheel.argv,
        variables={**variables, **context.wheel_variables},
    )
