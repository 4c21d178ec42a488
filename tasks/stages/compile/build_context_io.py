"""Resolve the inputs of a build (backend, folder, environment, job count) and preview the build.

The depth of Ninja's pool for flash-attention kernels, in trees that have one, is written into
build.ninja when CMake runs. It is therefore computed only from values that stay the same between
runs, and not from the free memory, which would make CMake run again each time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePath

from tasks.compiler_cache import cache_program_io
from tasks.core.deps_model import DepsManifest
from tasks.core.errors import TorchyardError
from tasks.jobs import ninja_steps_io
from tasks.jobs.job_scheduler_io import resolve_fixed_jobs
from tasks.knowledge.facts import FolderRule
from tasks.knowledge.knowledge_files_io import load_knowledge
from tasks.runlog import build_history_io
from tasks.stages.compile import build_folder_io
from tasks.stages.compile.build_backends import BACKENDS, Backend, BuildSpec, detect_backend
from tasks.stages.compile.build_folder_decision import FolderDecision, choose_folder_action
from tasks.stages.compile.configure_fingerprint import (
    ConfigureFingerprint,
    build_cmake_definitions,
    is_same_value,
)
from tasks.stages.compile.model import BackendName, CompileJob
from tasks.stages.env.model import LAUNCHER_VARIABLES, Environment
from tasks.stages.source.model import SourceTree
from tasks.system import manifests
from tasks.system.hardware import capacity, toolchain

KERNEL_JOBS_VARIABLE = "FLASH_ATTENTION_MAX_JOBS"
# In PyTorch's list of variables that CMake takes from the environment; comments do not count
_FORWARDED_LINE = re.compile(rf"^[^#\n]*\b{KERNEL_JOBS_VARIABLE}\b", re.MULTILINE)


def build_kernel_variables(
    tree: PurePath, variables: Mapping[str, str], jobs: int | None, *, elastic: bool
) -> dict[str, str]:
    """Return the variable for the depth of the kernel pool, as an addition to `variables`.

    The result is empty if the tree has no such pool, CUDA is off, or the user has set the variable.

    `jobs` is the requested number of compilers. With `elastic`, the jobserver limits jobs by
    memory, and the pool depth must not be a lower limit.
    """
    if (
        KERNEL_JOBS_VARIABLE in variables
        or not is_same_value(variables.get("USE_CUDA", ""), "1")
        or not find_forwarded_variables(tree)
    ):
        return {}
    if elastic:
        return {KERNEL_JOBS_VARIABLE: str(jobs or capacity.count_processors())}
    return {
        KERNEL_JOBS_VARIABLE: str(capacity.compute_kernel_jobs(jobs or capacity.count_processors()))
    }


def find_forwarded_variables(tree: PurePath) -> frozenset[str]:
    """Return the variable if the tree forwards it to CMake. CMake may still report it as unused."""
    path = Path(tree) / "cmake" / "EnvVarForwarding.cmake"
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    return frozenset({KERNEL_JOBS_VARIABLE} if _FORWARDED_LINE.search(text) else ())


@dataclass(frozen=True)
class BuildContext:
    """The inputs of a build: backend, build folder, and the requested configuration.

    `cache_entries` are the entries of the folder's CMakeCache.txt. `before` is the fingerprint that
    the folder was configured from. `max_jobs` is the number of jobs in the settings.
    `wheel_variables` must also be set for the wheel command, so that it finds the folder as compile
    left it.
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
        """Return the action that the folder needs, without changing anything."""
        return choose_folder_action(self.rules, self.cache_entries, self.before, self.requested)


def resolve_build_folder(job: CompileJob) -> PurePath:
    """Return the folder that CMake works in."""
    tree = Path(manifests.read_manifest(job.source, SourceTree).tree)
    spec = create_build_spec(job, manifests.read_manifest(job.deps, DepsManifest), tree)
    return BACKENDS[_select_backend(job, tree)].find_build_folder(spec)


def read_build_context(job: CompileJob, environment: Environment | None = None) -> BuildContext:
    """Read the manifests and the tree, and return the build context; nothing is changed.

    `environment` replaces the environment of the manifest.
    """
    tree = Path(manifests.read_manifest(job.source, SourceTree).tree)
    deps = manifests.read_manifest(job.deps, DepsManifest)
    planned = environment or manifests.read_manifest(job.environment, Environment)
    name = _select_backend(job, tree)
    backend, spec = BACKENDS[name], create_build_spec(job, deps, tree)
    folder = backend.find_build_folder(spec)
    cache = build_folder_io.read_cmake_cache(folder)
    effective = _keep_folder_launchers(planned, cache)
    ninja = cache.get("CMAKE_MAKE_PROGRAM", "")
    spec = replace(
        spec, ninja=ninja if cache_program_io.is_program_installed(ninja) else deps.ninja.path
    )
    rules = load_knowledge(Path(job.knowledge)).folder_rules
    launcher = effective.set.get("CMAKE_CXX_COMPILER_LAUNCHER", "")
    requested_jobs = job.jobs or _parse_job_count(effective.set.get("MAX_JOBS", ""))
    jobs = requested_jobs if job.jobs_exact else None
    jobs = jobs or resolve_fixed_jobs(requested_jobs, job.pool, spec.ninja, deps, (launcher,))
    kernel_variables = build_kernel_variables(
        tree, effective.set, requested_jobs, elastic=jobs is None
    )
    effective = replace(effective, set={**effective.set, **kernel_variables})
    requested = ConfigureFingerprint(effective.set, _identify_toolchain(deps, effective.set, spec))
    return BuildContext(
        name=name,
        backend=backend,
        work=replace(spec, definitions=build_cmake_definitions(rules, requested), jobs=jobs),
        max_jobs=requested_jobs,
        folder=folder,
        rules=rules,
        cache_entries=cache,
        before=build_folder_io.read_configured_fingerprint(folder, cache, rules, requested),
        requested=requested,
        environment=effective,
        wheel_variables={
            key: effective.set.get(key, "") for key in planned.offered if key in planned.set
        },
    )


def _parse_job_count(text: str) -> int | None:
    """Return the number of jobs that the user set as MAX_JOBS in build.env, or None."""
    return int(text) if text.isdecimal() else None


def create_build_spec(job: CompileJob, deps: DepsManifest, tree: PurePath) -> BuildSpec:
    """Return the build spec of a tree, before its build folder and variables are read."""
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
    """Return the environment with the folder's compiler cache, if that is still installed."""
    launchers = [held.get(name, "") for name in LAUNCHER_VARIABLES if name.endswith("_LAUNCHER")]
    is_missing = any(
        name and not cache_program_io.is_program_installed(name.split(";")[0]) for name in launchers
    )
    return asked if is_missing or not held else asked.keep_configured_launchers(held)


def _select_backend(job: CompileJob, tree: Path) -> BackendName:
    if job.backend != "auto":
        return job.backend
    pyproject = tree / "pyproject.toml"
    return detect_backend(pyproject.read_text(encoding="utf-8") if pyproject.is_file() else "")


def _identify_toolchain(
    deps: DepsManifest, variables: Mapping[str, str], work: BuildSpec
) -> dict[str, str]:
    """Return the identity of each tool that is used; unused tools are left out."""
    programs = {
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
    tools = {f"toolchain.{name}": value for name, value in programs.items() if value}
    return {name: toolchain.resolve_tool_identity(name, value) for name, value in tools.items()}


def _resolve_compiler(named: str, ours: str) -> str:
    """Return the absolute path if only "cl", or nothing, is given.

    On Windows CC and CXX are the bare name: see `tasks.stages.env.environment_variables`.
    """
    return ours if named in {"", "cl"} else named


def _read_tree_version(tree: Path) -> str:
    """Return the text of version.txt, or "" if there is no such file."""
    path = tree / "version.txt"
    return path.read_text(encoding="utf-8").strip() if path.is_file() else ""


@dataclass(frozen=True)
class BuildPreview:
    """The preview of a build: the folder decision and the expected work.

    `ninja` is Ninja's dry run, or None if the steps are known only after CMake has run.
    `last_object_count` is the number of objects in the last full build, or 0 if it is unknown.
    """

    decision: FolderDecision
    ninja: ninja_steps_io.NinjaDryRun | None
    last_object_count: int

    def __str__(self) -> str:
        return f"{self.decision}; {self._describe_work()}"

    def _describe_work(self) -> str:
        if self.decision.action in ("configure", "wipe"):
            known = (
                f" (the last whole build made {self.last_object_count:,})"
                if self.last_object_count
                else ""
            )
            return f"every object is made{known}"
        if self.ninja is None:
            return "how many objects that makes is known when CMake has run"
        more = ", after CMake, which may add to them" if self.ninja.configures else ""
        objects = _format_count(self.ninja.objects, "object")
        return f"Ninja would make {objects} in {_format_count(self.ninja.steps, 'step')}{more}"


def _format_count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def preview_build(job: CompileJob, environment: Environment | None = None) -> BuildPreview | None:
    """Return the preview of a build, or None if an earlier stage has not run yet.

    `environment` is the planned environment; without it, the one of the manifest is used.
    """
    try:
        context = read_build_context(job, environment)
    except TorchyardError:
        return None
    decision = context.choose_action()
    steps = [
        run
        for run in build_history_io.read_history(job.runs)
        if run["decision"] in ("configure", "wipe")
    ]
    last_count = (
        len([step for step in steps[-1]["objects"] if ".o" in step["output"]]) if steps else 0
    )
    target = job.target or "all"
    is_reuse = decision.action == "reuse"
    ninja = (
        ninja_steps_io.preview_ninja_build(context.work.ninja, context.folder, target)
        if is_reuse
        else None
    )
    return BuildPreview(decision, ninja, last_count)
