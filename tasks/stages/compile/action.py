"""Run the tree's build backend in the folder that is kept, and say what came out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

from tasks.effects import capacity, files, manifests, ninja, ninjalog, ninjaplan, shell, toolchain
from tasks.effects.voice import say, warn
from tasks.forecast import Forecast
from tasks.knowledge import load
from tasks.knowledge.facts import FolderRule
from tasks.model import Command
from tasks.stages.compile import buildfolder, products, runs
from tasks.stages.compile.backends import BACKENDS, Backend, detect
from tasks.stages.compile.decision import Decision, arguments, decide
from tasks.stages.compile.fingerprint import Fingerprint, definitions
from tasks.stages.compile.job import BackendName, Compiled, CompileJob
from tasks.stages.compile.unused import Unused
from tasks.stages.compile.work import Step, Work, cmake_again
from tasks.stages.deps.job import Deps
from tasks.stages.env.job import Environment
from tasks.stages.source.job import SourceTree

_NEEDED_MIB = 1024  # a build that has less is sure to fail; a whole CUDA build takes some 30 GiB
_OURS = {"USE_CUDA"}  # given to every tree, whether a person wrote it or not
_PARALLEL = ("MAX_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL")


@dataclass(frozen=True)
class Bench:
    """A build about to begin: the tree's backend, its folder, and what is wanted of it."""

    name: BackendName
    backend: Backend
    work: Work
    folder: PurePath
    rules: tuple[FolderRule, ...]
    wanted: Fingerprint
    environment: Environment

    def decide(self) -> Decision:
        """What the folder needs, by what it is now; changes nothing."""
        cache = buildfolder.read_cache(self.folder)
        before = buildfolder.configured_from(self.folder, cache, self.wanted)
        return decide(self.rules, cache, before, self.wanted)


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
        try:
            _configure(bench, decision, job)
            _compile(bench, job)
        finally:
            made = ninjalog.remade(before, ninjalog.read(bench.folder))
            runs.add(job.runs, decision, made, time.monotonic() - started)
        return (_compiled(bench),)


def open_bench(job: CompileJob) -> Bench:
    """What is to be built where; reads manifests and the tree, changes nothing."""
    tree = Path(manifests.read(job.source, SourceTree).tree)
    deps, environment = manifests.read(job.deps, Deps), manifests.read(job.environment, Environment)
    rules = load(Path(job.knowledge)).folder_rules
    wanted = Fingerprint(environment.set, _toolchain(deps, environment.set, tree))
    work = Work(
        tree=tree,
        ours=job.build,
        python=deps.python,
        cmake=deps.cmake.path,
        ninja=deps.ninja.path,
        type=job.type,
        definitions=definitions(rules, wanted),
        target=job.target,
        jobs=job.jobs or capacity.safe_jobs(),
    )
    name = _backend_of(job, tree)
    backend = BACKENDS[name]
    return Bench(name, backend, work, backend.folder(work), rules, wanted, environment)


def _backend_of(job: CompileJob, tree: Path) -> BackendName:
    if job.backend != "auto":
        return job.backend
    pyproject = tree / "pyproject.toml"
    return detect(pyproject.read_text(encoding="utf-8") if pyproject.is_file() else "")


def _toolchain(deps: Deps, variables: Mapping[str, str], tree: Path) -> dict[str, str]:
    """The identity of each tool that is used; one that is not is left out."""
    used = {
        "cc": variables.get("CC", deps.cc.path),
        "cxx": variables.get("CXX", deps.cxx.path),
        "nvcc": variables.get("CUDACXX", ""),
        "cudahost": variables.get("CUDAHOSTCXX", ""),
        "cmake": deps.cmake.version.partition(".")[0],
        "python": deps.python,
        "python_version": deps.python_version,
        "tree": str(tree),
    }
    named = {f"toolchain.{name}": value for name, value in used.items() if value}
    return {name: toolchain.identity(name, value) for name, value in named.items()}


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


def _compile(bench: Bench, job: CompileJob) -> None:
    """Run Ninja; what its objects cost before tells how long it will take."""
    known = {name: made.seconds for name, made in ninjalog.read(bench.folder).items()}
    plan = ninjaplan.foresee(bench.work.ninja, bench.folder, job.target or "all")
    planned = plan.outputs if plan else ()
    forecast = Forecast(planned, {**runs.costs(job.runs), **known})
    _run(bench.backend.compile_step(bench.work), bench, job, ninja.follow(forecast))


def _run(step: Step, bench: Bench, job: CompileJob, take: Callable[[str], None]) -> None:
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
