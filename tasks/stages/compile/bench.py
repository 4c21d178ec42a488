"""What is about to be built: the tree's backend, its folder, the tools, and what is asked for.

Reads manifests, the tree and what compilers say of themselves; changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from tasks.compiler_cache import compilercache
from tasks.core.deps_model import Deps
from tasks.jobs.crew import jobs_for
from tasks.knowledge import load
from tasks.knowledge.facts import FolderRule
from tasks.stages.compile import buildfolder, flashattention
from tasks.stages.compile.backends import BACKENDS, Backend, detect
from tasks.stages.compile.decision import Decision, decide
from tasks.stages.compile.fingerprint import Fingerprint, definitions
from tasks.stages.compile.job import BackendName, CompileJob
from tasks.stages.compile.work import Work
from tasks.stages.env.job import LAUNCHERS, Environment
from tasks.stages.source.job import SourceTree
from tasks.system import manifests
from tasks.system.hardware import toolchain


@dataclass(frozen=True)
class Bench:
    """A build about to begin: the tree's backend, its folder, and what is wanted of it.

    `held` is what CMakeCache.txt of the folder has, `before` what the folder is configured from.
    `most_jobs` is the number of jobs in the settings. `kept` are variables that the wheel's command
    has to have as well, so that it finds the folder as compile left it.
    """

    name: BackendName
    backend: Backend
    work: Work
    most_jobs: int | None
    folder: PurePath
    rules: tuple[FolderRule, ...]
    held: Mapping[str, str]
    before: Fingerprint
    wanted: Fingerprint
    environment: Environment
    kept: Mapping[str, str]

    def decide(self) -> Decision:
        """What the folder needs; changes nothing."""
        return decide(self.rules, self.held, self.before, self.wanted)


def folder_of(job: CompileJob) -> PurePath:
    """Where CMake works."""
    tree = Path(manifests.read(job.source, SourceTree).tree)
    work = work_of(job, manifests.read(job.deps, Deps), tree)
    return BACKENDS[_backend_of(job, tree)].folder(work)


def open_bench(job: CompileJob, environment: Environment | None = None) -> Bench:
    """What is to be built where; reads manifests and the tree, changes nothing. An `environment`
    is one that takes the place of the manifest's.
    """
    tree = Path(manifests.read(job.source, SourceTree).tree)
    deps = manifests.read(job.deps, Deps)
    asked = environment or manifests.read(job.environment, Environment)
    name = _backend_of(job, tree)
    backend, work = BACKENDS[name], work_of(job, deps, tree)
    folder = backend.folder(work)
    held = buildfolder.read_cache(folder)
    settled = _settled(asked, held)
    ninja = held.get("CMAKE_MAKE_PROGRAM", "")
    work = replace(work, ninja=ninja if compilercache.is_there(ninja) else deps.ninja.path)
    rules = load(Path(job.knowledge)).folder_rules
    launcher = settled.set.get("CMAKE_CXX_COMPILER_LAUNCHER", "")
    asked_jobs = job.jobs or _number(settled.set.get("MAX_JOBS", ""))
    jobs = asked_jobs if job.jobs_exact else None
    jobs = jobs or jobs_for(asked_jobs, job.pool, work.ninja, deps, (launcher,))
    deep = flashattention.pool(tree, settled.set, asked_jobs, elastic=jobs is None)
    settled = replace(settled, set={**settled.set, **deep})
    wanted = Fingerprint(settled.set, _toolchain(deps, settled.set, work))
    return Bench(
        name=name,
        backend=backend,
        work=replace(work, definitions=definitions(rules, wanted), jobs=jobs),
        most_jobs=asked_jobs,
        folder=folder,
        rules=rules,
        held=held,
        before=buildfolder.configured_from(folder, held, rules, wanted),
        wanted=wanted,
        environment=settled,
        kept={key: settled.set.get(key, "") for key in asked.offered if key in asked.set},
    )


def _number(text: str) -> int | None:
    """A person's own number of jobs, in build.env."""
    return int(text) if text.isdecimal() else None


def work_of(job: CompileJob, deps: Deps, tree: PurePath) -> Work:
    """The build of that tree, before a folder and its variables are looked at. Pure."""
    return Work(
        tree=tree,
        ours=job.build,
        python=deps.python,
        cmake=deps.cmake.path,
        ninja=deps.ninja.path,
        type=job.type,
        definitions={},
        target=job.target,
        jobs=job.jobs,
    )


def _settled(asked: Environment, held: Mapping[str, str]) -> Environment:
    """With the compiler cache that the folder was configured with, as long as that is here."""
    launchers = [held.get(name, "") for name in LAUNCHERS if name.endswith("_LAUNCHER")]
    gone = any(name and not compilercache.is_there(name.split(";")[0]) for name in launchers)
    return asked if gone or not held else asked.settled(held)


def _backend_of(job: CompileJob, tree: Path) -> BackendName:
    if job.backend != "auto":
        return job.backend
    pyproject = tree / "pyproject.toml"
    return detect(pyproject.read_text(encoding="utf-8") if pyproject.is_file() else "")


def _toolchain(deps: Deps, variables: Mapping[str, str], work: Work) -> dict[str, str]:
    """The identity of each tool that is used; one that is not is left out."""
    used = {
        "cc": _compiler(variables.get("CC", ""), deps.cc.path),
        "cxx": _compiler(variables.get("CXX", ""), deps.cxx.path),
        "nvcc": variables.get("CUDACXX", ""),
        "cudahost": variables.get("CUDAHOSTCXX", ""),
        "cmake": deps.cmake.version.partition(".")[0],
        "python": deps.python,
        "python_version": deps.python_version,
        "ninja": work.ninja,
        "tree": str(work.tree),
        "release": _release(Path(work.tree)),
    }
    named = {f"toolchain.{name}": value for name, value in used.items() if value}
    return {name: toolchain.identity(name, value) for name, value in named.items()}


def _compiler(named: str, ours: str) -> str:
    """On Windows the one of deps goes by its name alone: see `tasks.stages.env.msvc`."""
    return ours if named in {"", "cl"} else named


def _release(tree: Path) -> str:
    """What version.txt says, "" where there is none."""
    path = tree / "version.txt"
    return path.read_text(encoding="utf-8").strip() if path.is_file() else ""
