"""Run the tree's build backend in the folder that is kept, and say what came out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tasks.effects import capacity, files, manifests, ninja, shell
from tasks.effects.voice import warn
from tasks.model import Command
from tasks.stages.compile import cache, products
from tasks.stages.compile.backends import BACKENDS, Backend, detect
from tasks.stages.compile.job import BackendName, Compiled, CompileJob
from tasks.stages.compile.unused import Unused
from tasks.stages.compile.work import Step, Work
from tasks.stages.deps.job import Deps
from tasks.stages.env.job import Environment
from tasks.stages.source.job import SourceTree

_NEEDED_MIB = 1024  # a build that has less is sure to fail; a whole CUDA build takes some 30 GiB
_OURS = {"USE_CUDA"}  # given to every tree, whether a person wrote it or not
_PARALLEL = ("MAX_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL")


def run(job: CompileJob) -> tuple[Compiled]:
    """Compile what is not up to date by Ninja's judgement.

    Raises `CommandFailedError` with the first error, and `BuildError` where CMake would ignore a
    changed setting.
    """
    tree = Path(manifests.read(job.source, SourceTree).tree)
    name = _backend_of(job, tree)
    environment = manifests.read(job.environment, Environment)
    backend, work = BACKENDS[name], _work(job, tree, environment.set)
    folder = backend.folder(work)
    files.require_space(folder, _NEEDED_MIB, "compiling PyTorch")
    files.own(job.build)
    with files.lock(folder):  # of the tree, where another profile may be at work
        cache.drop_unfinished(folder)
        cache.refuse_ignored(backend, folder, environment.set)
        cache.remember(folder, environment.set)
        env = environment.over(shell.host_env())
        unused = Unused(environment.set.keys() - _OURS)
        for step in backend.compile_steps(work):
            _run(step, work, env, job, unused)
        if unused.names:
            warn(
                f"this tree does not know {', '.join(unused.names)}: see build.flags and build.env"
            )
        return (_compiled(name, backend, work),)


def _backend_of(job: CompileJob, tree: Path) -> BackendName:
    if job.backend != "auto":
        return job.backend
    pyproject = tree / "pyproject.toml"
    return detect(pyproject.read_text(encoding="utf-8") if pyproject.is_file() else "")


def _work(job: CompileJob, tree: Path, variables: Mapping[str, str]) -> Work:
    deps = manifests.read(job.deps, Deps)
    return Work(
        tree=tree,
        ours=job.build,
        python=deps.python,
        cmake=deps.cmake.path,
        ninja=deps.ninja.path,
        type=job.type,
        variables=variables,
        target=job.target,
        jobs=job.jobs or capacity.safe_jobs(),
    )


def _run(step: Step, work: Work, env: Mapping[str, str], job: CompileJob, unused: Unused) -> None:
    progress = ninja.follow()

    def take(line: str) -> None:
        unused.take(line)
        progress(line)

    command = Command(step.argv, {**env, **step.env}, step.what, cwd=work.tree, log=job.log)
    shell.run(command, take)


def _compiled(name: BackendName, backend: Backend, work: Work) -> Compiled:
    wheel = backend.wheel_command(work)
    variables = {key: value for key, value in wheel.env.items() if key not in _PARALLEL}
    return Compiled(
        backend=name,
        tree=str(work.tree),
        build=str(backend.folder(work)),
        target=work.target,
        products=products.digest(backend.products(work), work.tree),
        wheel=wheel.argv,
        variables=variables,
    )
