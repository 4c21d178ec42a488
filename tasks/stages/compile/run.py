"""Run the stage compile: configure and build PyTorch, and record the run in the build history."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

from tasks.compiler_cache import cache_program_io, remote_cache_io
from tasks.compiler_cache import distributed_compilation_io as distribute
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
from tasks.stages.compile.build_backends import BuildStep, create_reconfigure_step
from tasks.stages.compile.build_context_io import (
    BuildContext,
    read_build_context,
    resolve_build_folder,
)
from tasks.stages.compile.build_folder_decision import FolderDecision, build_reconfigure_arguments
from tasks.stages.compile.model import CompileJob, CompileResult
from tasks.stages.env.model import LAUNCHER_VARIABLES
from tasks.stages.source.model import SourceTree
from tasks.system import files, manifests, shell
from tasks.system.output import print_line, print_warning
from tasks.wheels.build_inputs import add_source_date


@dataclass
class CompileStatistics:
    """The statistics of a run in progress.

    `decision` is the folder decision. `peaks` are MiB at most by output, `edge_times` the times of
    outputs, `jobs` the parallel jobs, `cache` the hits and misses of the compiler cache. `killed`
    are outputs whose compilers ran out of memory. `old_make` is True if a make without jobserver
    support takes part. `warnings` counts lines with a warning. The seconds are those of CMake and
    Ninja.
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
        """Return the facts for the run's line in the build history."""
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


@dataclass
class UnusedVariables:
    """Collects in `names` the `requested` variables that CMake reports as unused."""

    requested: Collection[str]
    names: list[str] = field(default_factory=list)
    _listing: bool = False

    def read_line(self, line: str) -> None:
        """Read a line of CMake's output. The list is indented, and an empty line precedes it."""
        text = line.strip()
        if _UNUSED_HEADING in text:
            self._listing = True
        elif text and not line.startswith(" "):
            self._listing = False
        elif self._listing and text in self.requested and text not in self.names:
            self.names.append(text)


_MANAGED_VARIABLES = {"USE_CUDA"}  # always set, also if the user did not set it


def run(job: CompileJob) -> tuple[CompileResult]:
    """Configure the build folder as requested and compile everything that Ninja finds out of date.

    Raises `CommandFailedError` with the first error, and `TorchyardError` if CMake does not accept
    a requested value or an unmanaged folder would have to be wiped.
    """
    folder = resolve_build_folder(job)
    files.require_minimum_space(folder, "compiling PyTorch")
    files.create_owned_folder(job.build)
    with files.lock_folder(folder):  # may be in the tree, where another profile may build
        context = read_build_context(job)
        statistics = CompileStatistics(context.choose_action())
        print_line(str(statistics.decision))
        if statistics.decision.action == "wipe":
            build_folder_io.wipe_build_folder(folder, statistics.decision)
            context = read_build_context(job)  # now with the compiler cache that is installed
        _build_and_record(context, job, statistics)
        return (_create_result(context, job),)


def _build_and_record(bench: BuildContext, job: CompileJob, told: CompileStatistics) -> None:
    """Configure and compile, and append the result to the build history, also after a failure."""
    started, old_log = time.monotonic(), build_history_io.read_ninja_log(bench.folder)
    env, log = _compute_environment(bench, job), Path(job.log).with_suffix(".cache.log")
    cache = _find_active_cache(bench, job)
    distribution = distribute.CompileDistribution(env)
    measurement = cache_program_io.CacheMeasurement(env)
    try:
        with (
            remote_cache_io.open_remote_environment(
                cache, job.cache_remote, env, job.build
            ) as coordinator,
            _start_distribution(bench, job, coordinator) as distribution,
            cache_program_io.measure_cache(cache, distribution.env, log) as measurement,
        ):
            _configure_folder(bench, told, job, measurement.env)
            _compile_folder(bench, job, told, (measurement, distribution.slots), old_log)
    finally:
        if measurement.counts and measurement.counts.hits + measurement.counts.misses:
            told.cache = measurement.counts.build_record(cache)
            run_record_io.record_cache(measurement.counts.hits, measurement.counts.misses)
            print_line(measurement.counts.format_summary(cache))
            remote_cache_io.disable_failing_cache(cache, job.cache_remote, measurement.counts)
        new_entries = build_history_io.find_new_entries(
            old_log, build_history_io.read_ninja_log(bench.folder)
        )
        objects, seconds = (
            build_history_io.build_object_entries(new_entries, told.peaks),
            time.monotonic() - started,
        )
        build_history_io.append_run(
            job.runs, seconds, objects, **told.build_run_facts(), **distribution.noted
        )
        run_record_io.record_edges(
            ninja_steps_io.build_edges(told.edge_times, new_entries, told.peaks)
        )
    if told.warnings:
        print_line(f"{told.warnings:,} warnings of compilers are in {job.log}")
    if slow := find_slowest_outputs(build_history_io.collect_durations(new_entries)):
        print_line(f"slowest: {', '.join(map(str, slow))}")


def _compute_environment(bench: BuildContext, job: CompileJob) -> dict[str, str]:
    """Return the environment of the build commands.

    SOURCE_DATE_EPOCH is added here and is not part of the configure fingerprint: it changes with
    every commit and would force a full rebuild.
    """
    env = bench.environment.build_child_environment(shell.build_host_env())
    return add_source_date(env, manifests.read_manifest(job.source, SourceTree).date)


def _find_active_cache(bench: BuildContext, job: CompileJob) -> CompilerCache:
    """Return the compiler cache that the build folder uses; it can differ from the one of deps."""
    cache = (
        manifests.read_manifest(job.cache, CompilerCache)
        if Path(job.cache).exists()
        else CompilerCache()
    )
    launcher = bench.environment.set.get("CMAKE_CXX_COMPILER_LAUNCHER", "")
    if launcher and cache_program_io.parse_cache_kind(launcher) != cache.kind:
        return cache_program_io.find_cache(launcher) or CompilerCache()
    return cache


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
    """Configure or reconfigure the build folder, then verify its CMake cache."""
    configured = bench.before
    if told.decision.action == "reuse":
        if not build_folder_io.has_configure_note(bench.folder):
            build_folder_io.require_cmake_values(bench.folder, bench.rules, bench.requested)
        build_folder_io.write_configure_note(bench.folder, bench.rules, configured, bench.requested)
        return
    known_variables = _MANAGED_VARIABLES | build_context_io.find_forwarded_variables(
        bench.work.tree
    )
    unused = UnusedVariables(
        bench.requested.variables.keys() - known_variables - set(LAUNCHER_VARIABLES)
    )
    step = _select_configure_step(bench, told.decision)
    if told.decision.action != "reconfigure":
        configured = replace(configured, toolchain=bench.requested.toolchain)
    build_folder_io.write_pending_note(bench.folder, configured, bench.requested)
    handle_line = progress_io.create_line_handler()

    def read_configure_line(line: str) -> None:
        unused.read_line(line)
        handle_line(line)

    told.configure_seconds = _run_step(
        replace(step, env={**env, **step.env}), bench, job, read_configure_line
    )
    build_folder_io.require_cmake_values(bench.folder, bench.rules, bench.requested)
    build_folder_io.write_configure_note(bench.folder, bench.rules, configured, bench.requested)
    if unused.names:
        print_warning(
            f"this tree does not know {', '.join(unused.names)}: see build.flags and build.env"
        )


def _select_configure_step(bench: BuildContext, decision: FolderDecision) -> BuildStep:
    """Return the command that configures the folder as requested."""
    if decision.action == "reconfigure":
        arguments = build_reconfigure_arguments(bench.rules, decision, bench.requested)
        return create_reconfigure_step(bench.work, bench.folder, arguments)
    build_folder_io.prepare_build_folder(bench.folder)
    return bench.backend.create_configure_step(bench.work)


def _compile_folder(
    bench: BuildContext,
    job: CompileJob,
    told: CompileStatistics,
    given: tuple[cache_program_io.CacheMeasurement, int],
    before: Mapping[str, build_history_io.NinjaLogEntry],
) -> None:
    """Run Ninja under the job scheduler.

    The costs of earlier builds determine how many jobs fit into memory and the predicted duration.
    `given` holds the cache measurement with its environment, and the job slots of remote workers.
    """
    measurement, slots = given
    history = tuple(build_history_io.read_history(job.runs))
    plan = ninja_steps_io.preview_ninja_build(bench.work.ninja, bench.folder, job.target or "all")
    durations = {
        **build_history_io.collect_costs(history),
        **{name: made.seconds for name, made in before.items()},
    }
    forecast = Forecast(plan.outputs if plan else (), durations)
    log_follower = build_history_io.NinjaLogFollower(bench.folder, before)
    watch = ProgressMonitor(
        measurement.hit_rate,
        lambda: build_history_io.collect_durations(log_follower.read_new_entries()),
    )
    is_old_make = build_history_io.has_old_make(history)
    limit = bench.max_jobs
    scheduler = JobScheduler(
        bench.work.jobs,
        job.pool,
        build_history_io.collect_peaks(history),
        progress_monitor=watch,
        old_make=is_old_make,
        limit=limit,
    )
    scheduler.slots = slots

    def start_ninja(jobs: int | None, more: Mapping[str, str], take: LineHandler) -> None:
        step = bench.backend.create_compile_step(replace(bench.work, jobs=jobs))
        env_now = {**measurement.env, **step.env, **more}
        if jobs is None:
            env_now = {
                name: value for name, value in env_now.items() if name not in JOB_COUNT_VARIABLES
            }
        with progress_io.report_build_progress(scheduler.sample_activity, forecast) as handle_line:

            def read_ninja_line(line: str) -> None:
                take(line)
                handle_line(line)
                told.warnings += is_warning(line)

            told.ninja_seconds += _run_step(replace(step, env=env_now), bench, job, read_ninja_line)

    try:
        scheduler.run_build(start_ninja)
    finally:
        told.peaks, told.jobs, told.killed = scheduler.peaks, scheduler.allowed, scheduler.killed
        told.old_make, told.edge_times = scheduler.old_make, scheduler.edge_times


def _run_step(step: BuildStep, bench: BuildContext, job: CompileJob, take: LineHandler) -> float:
    """Run the step and return its duration in seconds."""
    started = time.monotonic()
    shell.run_command(
        Command(step.argv, step.env, step.description, cwd=bench.work.tree, log=job.log), take
    )
    return time.monotonic() - started


def _create_result(bench: BuildContext, job: CompileJob) -> CompileResult:
    work, backend = bench.work, bench.backend
    wheel = backend.create_wheel_step(work)
    variables = {key: value for key, value in wheel.env.items() if key not in JOB_COUNT_VARIABLES}
    digest_cache = Path(job.runs).with_name("libraries.json")
    return CompileResult(
        backend=bench.name,
        tree=str(work.tree),
        build=str(bench.folder),
        target=work.target,
        products=build_folder_io.compute_library_digest(
            backend.list_output_folders(work), work.tree, digest_cache
        ),
        wheel=wheel.argv,
        variables={**variables, **bench.wheel_variables},
    )
