"""Run the tree's build backend in the folder that is kept, and say what came out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from tasks.compiler_cache import cachereach, compilercache
from tasks.compiler_cache import distributed as distribute
from tasks.core.atwork import slowest
from tasks.core.deps_model import Cache
from tasks.core.model import Command
from tasks.jobs import edgetimes
from tasks.jobs.buildlines import is_warning
from tasks.jobs.crew import NUMBERS, Crew, Take
from tasks.jobs.forecast import Forecast
from tasks.jobs.ninja import ninja, ninjaplan
from tasks.jobs.watch import Watch
from tasks.runlog import ninjalog, recording, runs
from tasks.stages.compile import buildfolder, flashattention, products
from tasks.stages.compile.bench import Bench, folder_of, open_bench
from tasks.stages.compile.decision import Decision, arguments
from tasks.stages.compile.job import Compiled, CompileJob
from tasks.stages.compile.told import Run
from tasks.stages.compile.unused import Unused
from tasks.stages.compile.work import Step, cmake_again
from tasks.stages.env.job import LAUNCHERS
from tasks.stages.source.job import SourceTree
from tasks.system import files, manifests, shell, space
from tasks.system.voice import say, warn
from tasks.wheels.provenance.made import dated

_OURS = {"USE_CUDA"}  # given to every tree, whether a person wrote it or not


def run(job: CompileJob) -> tuple[Compiled]:
    """Compile what is not up to date by Ninja's judgement, in a folder that is configured for what
    is asked.

    Raises `CommandFailedError` with the first error, and `BuildError` where CMake does not take
    what is asked for, or where a folder would have to be wiped that is not ours.
    """
    folder = folder_of(job)
    space.require_some(folder, "compiling PyTorch")
    files.own(job.build)
    with files.lock(folder):  # of the tree, where another profile may be at work
        bench = open_bench(job)
        told = Run(bench.decide())
        say(str(told.decision))
        if told.decision.do == "wipe":
            buildfolder.wipe(folder, told.decision)
            bench = open_bench(job)  # which takes the compiler cache that is here now
        _recorded(bench, job, told)
        return (_compiled(bench, job),)


def _recorded(bench: Bench, job: CompileJob, told: Run) -> None:
    """Configure and compile, and add what came of it to the runs, whatever that was."""
    started, before = time.monotonic(), ninjalog.read(bench.folder)
    env, log = _environment(bench, job), Path(job.log).with_suffix(".cache.log")
    cache = _cache(bench, job)
    handed = distribute.Handed(env)
    measured = compilercache.Measured(env)
    try:
        with (
            cachereach.remote_environment(cache, job.cache_remote, env, job.build) as shared,
            _handing_on(bench, job, shared) as handed,
            compilercache.measure(cache, handed.env, log) as measured,
        ):
            _configure(bench, told, job, measured.env)
            _compile(bench, job, told, (measured, handed.slots), before)
    finally:
        if measured.counts and measured.counts.hits + measured.counts.misses:
            told.cache = measured.counts.noted(cache)
            recording.cache(measured.counts.hits, measured.counts.misses)
            say(measured.counts.told(cache))
            cachereach.look_back(cache, job.cache_remote, measured.counts)
        made = ninjalog.remade(before, ninjalog.read(bench.folder))
        objects, seconds = runs.objects(made, told.peaks), time.monotonic() - started
        runs.add(job.runs, seconds, objects, **told.facts(), **handed.noted)
        recording.edges(edgetimes.edges(told.heard, made, told.peaks))
    if told.warnings:
        say(f"{told.warnings:,} warnings of compilers are in {job.log}")
    if slow := slowest(runs.seconds(made)):
        say(f"slowest: {', '.join(map(str, slow))}")


def _environment(bench: Bench, job: CompileJob) -> dict[str, str]:
    """The time of the source is none of what a folder is configured from: each commit would have
    everything compiled again.
    """
    env = bench.environment.over(shell.host_env())
    return dated(env, manifests.read(job.source, SourceTree).date)


def _cache(bench: Bench, job: CompileJob) -> Cache:
    """The compiler cache that is at work in the folder, which need not be the one of deps."""
    found = manifests.read(job.cache, Cache) if Path(job.cache).exists() else Cache()
    launcher = bench.environment.set.get("CMAKE_CXX_COMPILER_LAUNCHER", "")
    if launcher and compilercache.kind_of(launcher) != found.kind:
        return compilercache.find(launcher) or Cache()
    return found


def _handing_on(
    bench: Bench, job: CompileJob, env: Mapping[str, str]
) -> AbstractContextManager[distribute.Handed]:
    launcher = bench.environment.set.get("CMAKE_CXX_COMPILER_LAUNCHER", "")
    compilers = [env.get(name, "") for name in ("CC", "CXX")]
    log = Path(job.log).with_suffix(".workers.log")
    return distribute.handing_on(job.workers, launcher, compilers, env, log)


def _configure(bench: Bench, told: Run, job: CompileJob, env: Mapping[str, str]) -> None:
    """Make the folder one that is configured for what is asked, and see that it is."""
    before = bench.before
    if told.decision.do == "reuse":
        if not buildfolder.has_note(bench.folder):
            buildfolder.require(bench.folder, bench.rules, bench.wanted)
        buildfolder.remember(bench.folder, bench.rules, before, bench.wanted)
        return
    known = _OURS | flashattention.forwarded(bench.work.tree)
    unused = Unused(bench.wanted.variables.keys() - known - set(LAUNCHERS))
    step = _configuring(bench, told.decision)
    if told.decision.do != "reconfigure":
        before = replace(before, toolchain=bench.wanted.toolchain)
    buildfolder.begin(bench.folder, before, bench.wanted)
    follow = ninja.follow()

    def take(line: str) -> None:
        unused.take(line)
        follow(line)

    told.configure_seconds = _run(replace(step, env={**env, **step.env}), bench, job, take)
    buildfolder.require(bench.folder, bench.rules, bench.wanted)
    buildfolder.remember(bench.folder, bench.rules, before, bench.wanted)
    if unused.names:
        warn(f"this tree does not know {', '.join(unused.names)}: see build.flags and build.env")


def _configuring(bench: Bench, decision: Decision) -> Step:
    """The command that makes the folder what is asked."""
    if decision.do == "reconfigure":
        given = arguments(bench.rules, decision, bench.wanted)
        return cmake_again(bench.work, bench.folder, given)
    buildfolder.prepare(bench.folder)
    return bench.backend.configure_step(bench.work)


def _compile(
    bench: Bench,
    job: CompileJob,
    told: Run,
    given: tuple[compilercache.Measured, int],
    before: Mapping[str, ninjalog.Made],
) -> None:
    """Run Ninja; what its objects cost before tells how many fit, and how long it will take.
    `given` are what counts the cache's hits, with the environment, and the slots of other machines.
    """
    measured, slots = given
    past = tuple(runs.read(job.runs))
    plan = ninjaplan.foresee(bench.work.ninja, bench.folder, job.target or "all")
    costs = {**runs.costs(past), **{name: made.seconds for name, made in before.items()}}
    forecast = Forecast(plan.outputs if plan else (), costs)
    growing = ninjalog.Growing(bench.folder, before)
    watch = Watch(measured.hit_rate, lambda: runs.seconds(growing.made()))
    met = runs.old_make(past)
    limit = bench.most_jobs
    crew = Crew(bench.work.jobs, job.pool, runs.peaks(past), watch=watch, old_make=met, limit=limit)
    crew.slots = slots

    def start(jobs: int | None, more: Mapping[str, str], take: Take) -> None:
        step = bench.backend.compile_step(replace(bench.work, jobs=jobs))
        env_now = {**measured.env, **step.env, **more}
        if jobs is None:
            env_now = {name: value for name, value in env_now.items() if name not in NUMBERS}
        with ninja.watched(crew.look, forecast) as follow:

            def each(line: str) -> None:
                take(line)
                follow(line)
                told.warnings += is_warning(line)

            told.ninja_seconds += _run(replace(step, env=env_now), bench, job, each)

    try:
        crew.work(start)
    finally:
        told.peaks, told.jobs, told.killed = crew.peaks, crew.allowed, crew.killed
        told.old_make, told.heard = crew.old_make, crew.heard


def _run(step: Step, bench: Bench, job: CompileJob, take: Take) -> float:
    """Run it; the seconds it took."""
    started = time.monotonic()
    shell.run(Command(step.argv, step.env, step.what, cwd=bench.work.tree, log=job.log), take)
    return time.monotonic() - started


def _compiled(bench: Bench, job: CompileJob) -> Compiled:
    work, backend = bench.work, bench.backend
    wheel = backend.wheel_command(work)
    variables = {key: value for key, value in wheel.env.items() if key not in NUMBERS}
    known = Path(job.runs).with_name("libraries.json")
    return Compiled(
        backend=bench.name,
        tree=str(work.tree),
        build=str(bench.folder),
        target=work.target,
        products=products.digest(backend.products(work), work.tree, known),
        wheel=wheel.argv,
        variables={**variables, **bench.kept},
    )
