"""Run the tree's build backend in the folder that is kept, and say what came out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from tasks.effects import (
    files,
    ninja,
    ninjalog,
    ninjaplan,
    shell,
)
from tasks.effects.voice import say, warn
from tasks.forecast import Forecast
from tasks.model import Command
from tasks.stages.compile import buildfolder, products, runs
from tasks.stages.compile.bench import Bench, open_bench
from tasks.stages.compile.crew import Crew, Take
from tasks.stages.compile.decision import Decision, arguments
from tasks.stages.compile.job import Compiled, CompileJob
from tasks.stages.compile.unused import Unused
from tasks.stages.compile.work import Step, cmake_again

_NEEDED_MIB = 1024  # a build that has less is sure to fail; a whole CUDA build takes some 30 GiB
_OURS = {"USE_CUDA"}  # given to every tree, whether a person wrote it or not
_PARALLEL = ("MAX_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL")


def run(job: CompileJob) -> tuple[Compiled]:
    """Compile what is not up to date by Ninja's judgement, in a folder that is configured for what
    is asked.

    Raises `CommandFailedError` with the first error, and `BuildError` where CMake does not take
    what is asked for, or where a folder would have to be wiped that is not ours.
    """
    bench = open_bench(job)
    files.require_space(bench.folder, _NEEDED_MIB, "compiling PyTorch")
    files.own(job.build)
    with files.lock(bench.folder):  # of the tree, where another profile may be at work
        decision = bench.decide()
        say(str(decision))
        started, before = time.monotonic(), ninjalog.read(bench.folder)
        told = runs.Run(decision)
        try:
            _configure(bench, decision, job)
            _compile(bench, job, told)
        finally:
            made = ninjalog.remade(before, ninjalog.read(bench.folder))
            runs.add(job.runs, told, made, time.monotonic() - started)
        return (_compiled(bench),)


def _configure(bench: Bench, decision: Decision, job: CompileJob) -> None:
    """Make the folder one that is configured for what is asked, and see that it is."""
    if decision.do == "reuse":
        buildfolder.remember(bench.folder, bench.rules, bench.wanted)
        return
    unused = Unused(bench.wanted.variables.keys() - _OURS)
    if decision.do == "wipe":
        buildfolder.wipe(bench.folder, decision)
    if decision.do == "reconfigure":
        given = arguments(bench.rules, decision, bench.wanted)
        step = cmake_again(bench.work, bench.folder, given)
    else:
        buildfolder.prepare(bench.folder)
        step = bench.backend.configure_step(bench.work)
    follow = ninja.follow()

    def take(line: str) -> None:
        unused.take(line)
        follow(line)

    _run(step, bench, job, take)
    buildfolder.require(bench.folder, bench.rules, bench.wanted)
    buildfolder.remember(bench.folder, bench.rules, bench.wanted)
    if unused.names:
        warn(f"this tree does not know {', '.join(unused.names)}: see build.flags and build.env")


def _compile(bench: Bench, job: CompileJob, told: runs.Run) -> None:
    """Run Ninja; what its objects cost before tells how many fit, and how long it will take."""
    known = {name: made.seconds for name, made in ninjalog.read(bench.folder).items()}
    plan = ninjaplan.foresee(bench.work.ninja, bench.folder, job.target or "all")
    forecast = Forecast(plan.outputs if plan else (), {**runs.costs(job.runs), **known})

    def start(jobs: int | None, env: Mapping[str, str], take: Take) -> None:
        step = bench.backend.compile_step(replace(bench.work, jobs=jobs))
        follow = ninja.follow(forecast)

        def each(line: str) -> None:
            take(line)
            follow(line)

        _run(replace(step, env={**step.env, **env}), bench, job, each)

    Crew(bench.work.jobs, job.pool, runs.peaks(job.runs), told).work(start)


def _run(step: Step, bench: Bench, job: CompileJob, take: Take) -> None:
    env = {**bench.environment.over(shell.host_env()), **step.env}
    shell.run(Command(step.argv, env, step.what, cwd=bench.work.tree, log=job.log), take)


def _compiled(bench: Bench) -> Compiled:
    work, backend = bench.work, bench.backend
    wheel = backend.wheel_command(work)
    variables = {key: value for key, value in wheel.env.items() if key not in _PARALLEL}
    return Compiled(
        backend=bench.name,
        tree=str(work.tree),
        build=str(bench.folder),
        target=work.target,
        products=products.digest(backend.products(work), work.tree),
        wheel=wheel.argv,
        variables=variables,
    )
