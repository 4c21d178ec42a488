"""What is about to be built: the tree's backend, its folder, the tools, and what is asked for.

Reads manifests, the tree and what compilers say of themselves; changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from tasks.compiler_cache import compilercache
from tasks.core.deps_model import DepsManifest
from tasks.jobs.crew import resolve_fixed_jobs
from tasks.knowledge import load_knowledge
from tasks.knowledge.facts import FolderRule
from tasks.stages.compile import buildfolder, flashattention
from tasks.stages.compile.backends import BACKENDS, Backend, detect_backend
from tasks.stages.compile.decision import FolderDecision, choose_folder_action
from tasks.stages.compile.fingerprint import ConfigureFingerprint, build_cmake_definitions
from tasks.stages.compile.job import BackendName, CompileJob
from tasks.stages.compile.work import BuildSpec
from tasks.stages.env.job import LAUNCHER_VARIABLES, Environment
from tasks.stages.source.job import SourceTree
from tasks.system import manifests
from tasks.system.hardware import toolchain


@dataclass(frozen=True)
class BuildContext:
    """A build about to begin: the tree's backend, its folder, and what is wanted of it.

    `held` is what CMakeCache.txt of the folder has, `before` what the folder is configured from.
    `most_jobs` is the number of jobs in the settings. `kept` are variables that the wheel's command
    has to have as well, so that it finds the folder as compile left it.
    """

    name: BackendName
    backend: Backend
    work: BuildSpec
    max_jobs: int | None
    folder: PurePath
    rules: tuple[FolderRule, ...]
    cache_entries: Mapping[str, str]
    before: ConfigureFingerprint
    requested: ConfigureFingerprint
    environment: Environment
    wheel_variables: Mapping[str, str]

    def choose_action(self) -> FolderDecision:
        """What the folder needs; changes nothing."""
        return choose_folder_action(self.rules, self.cache_entries, self.before, self.requested)


def resolve_build_folder(job: CompileJob) -> PurePath:
    """Where CMake works."""
    tree = Path(manifests.read_manifest(job.source, SourceTree).tree)
    work = create_build_spec(job, manifests.read_manifest(job.deps, DepsManifest), tree)
    return BACKENDS[_select_backend(job, tree)].find_build_folder(work)


def read_build_context(job: CompileJob, environment: Environment | None = None) -> BuildContext:
    """What is to be built where; reads manifests and the tree, changes nothing. An `environment`
    is one that takes the place of the manifest's.
    """
    tree = Path(manifests.read_manifest(job.source, SourceTree).tree)
    deps = manifests.read_manifest(job.deps, DepsManifest)
    asked = environment or manifests.read_manifest(job.environment, Environment)
    name = _select_backend(job, tree)
    backend, work = BACKENDS[name], create_build_spec(job, deps, tree)
    folder = backend.find_build_folder(work)
    held = buildfolder.read_cmake_cache(folder)
    settled = _keep_folder_launchers(asked, held)
    ninja = held.get("CMAKE_MAKE_PROGRAM", "")
    work = replace(
        work, ninja=ninja if compilercache.is_program_installed(ninja) else deps.ninja.path
    )
    rules = load_knowledge(Path(job.knowledge)).folder_rules
    launcher = settled.set.get("CMAKE_CXX_COMPILER_LAUNCHER", "")
    asked_jobs = job.jobs or _parse_job_count(settled.set.get("MAX_JOBS", ""))
    jobs = asked_jobs if job.jobs_exact else None
    jobs = jobs or resolve_fixed_jobs(asked_jobs, job.pool, work.ninja, deps, (launcher,))
    deep = flashattention.build_kernel_variables(
        tree, settled.set, asked_jobs, elastic=jobs is None
    )
    settled = replace(settled, set={**settled.set, **deep})
    wanted = ConfigureFingerprint(settled.set, _identify_toolchain(deps, settled.set, work))
    return BuildContext(
        name=name,
        backend=backend,
        work=replace(work, definitions=build_cmake_definitions(rules, wanted), jobs=jobs),
        max_jobs=asked_jobs,
        folder=folder,
        rules=rules,
        cache_entries=held,
        before=buildfolder.read_configured_fingerprint(folder, held, rules, wanted),
        requested=wanted,
        environment=settled,
        wheel_variables={
            key: settled.set.get(key, "") for key in asked.offered if key in asked.set
        },
    )


def _parse_job_count(text: str) -> int | None:
    """A person's own number of jobs, in build.env."""
    return int(text) if text.isdecimal() else None


def create_build_spec(job: CompileJob, deps: DepsManifest, tree: PurePath) -> BuildSpec:
    """The build of that tree, before a folder and its variables are looked at. Pure."""
    return BuildSpec(
        tree=tree,
        build_root=job.build,
        python=deps.python,
        cmake=deps.cmake.path,
        ninja=deps.ninja.path,
        type=job.type,
        definitions={},
        target=job.target,
        jobs=job.jobs,
    )


def _keep_folder_launchers(asked: Environment, held: Mapping[str, str]) -> Environment:
    """With the compiler cache that the folder was configured with, as long as that is here."""
    launchers = [held.get(name, "") for name in LAUNCHER_VARIABLES if name.endswith("_LAUNCHER")]
    gone = any(
        name and not compilercache.is_program_installed(name.split(";")[0]) for name in launchers
    )
    return asked if gone or not held else asked.keep_configured_launchers(held)


def _select_backend(job: CompileJob, tree: Path) -> BackendName:
    if job.backend != "auto":
        return job.backend
    pyproject = tree / "pyproject.toml"
    return detect_backend(pyproject.read_text(encoding="utf-8") if pyproject.is_file() else "")


def _identify_toolchain(
    deps: DepsManifest, variables: Mapping[str, str], work: BuildSpec
) -> dict[str, str]:
    """The identity of each tool that is used; one that is not is left out."""
    used = {
        "cc": _resolve_compiler(variables.get("CC", ""), deps.cc.path),
        "cxx": _resolve_compiler(variables.get("CXX", ""), deps.cxx.path),
        "nvcc": variables.get("CUDACXX", ""),
        "cudahost": variables.get("CUDAHOSTCXX", ""),
        "cmake": deps.cmake.version.partition(".")[0],
        "python": deps.python,
        "python_version": deps.python_version,
        "ninja": work.ninja,
        "tree": str(work.tree),
        "release": _read_tree_version(Path(work.tree)),
    }
    named = {f"toolchain.{name}": value for name, value in used.items() if value}
    return {name: toolchain.resolve_tool_identity(name, value) for name, value in named.items()}


def _resolve_compiler(named: str, ours: str) -> str:
    """On Windows the one of deps goes by its name alone: see `tasks.stages.env.msvc`."""
    return ours if named in {"", "cl"} else named


def _read_tree_version(tree: Path) -> str:
    """What version.txt says, "" where there is none."""
    path = tree / "version.txt"
    return path.read_text(encoding="utf-8").strip() if path.is_file() else ""
