"""Resolve the backend, folder, environment and job count of a build, and preview the build."""

import contextlib
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
from tasks.stages.compile.build_backends import BACKENDS, BuildSpec, CMakeBackend, detect_backend
from tasks.stages.compile.build_folder_decision import (
    ConfigureFingerprint,
    FolderDecision,
    build_cmake_definitions,
    choose_folder_action,
    is_same_value,
)
from tasks.stages.compile.model import BackendName, CompileJob
from tasks.stages.env.model import LAUNCHER_VARIABLES, Environment
from tasks.stages.source.model import SourceTree
from tasks.system import manifests
from tasks.system.hardware import capacity, toolchain

KERNEL_JOBS_VARIABLE = "FLASH_ATTENTION_MAX_JOBS"
# A line, except a comment, that names the variable in PyTorch's list of variables for CMake
_FORWARDED_LINE = re.compile(rf"^[^#\n]*\b{KERNEL_JOBS_VARIABLE}\b", re.MULTILINE)


def build_kernel_variables(
    tree: PurePath, variables: Mapping[str, str], jobs: int | None, *, elastic: bool
) -> dict[str, str]:
    """Return the variable that limits how many flash-attention kernels compile at once.

    The result is empty if the tree has no such limit, CUDA is off, or the user has set the
    variable. With `elastic`, a jobserver limits the jobs, so that the value is the full job count.
    """
    is_cuda_build = is_same_value(variables.get("USE_CUDA", ""), "1")
    if KERNEL_JOBS_VARIABLE in variables or not (is_cuda_build and has_kernel_pool(tree)):
        return {}
    depth = jobs or capacity.count_processors()
    return {KERNEL_JOBS_VARIABLE: str(depth if elastic else capacity.compute_kernel_jobs(depth))}


def has_kernel_pool(tree: PurePath) -> bool:
    """Return True if the tree forwards FLASH_ATTENTION_MAX_JOBS to CMake."""
    path = Path(tree) / "cmake" / "EnvVarForwarding.cmake"
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    return bool(_FORWARDED_LINE.search(text))


@dataclass(frozen=True)
class BuildContext:
    """The backend, build folder and requested configuration of a build.

    `cache_entries` is the content of CMakeCache.txt. `before` is the configuration of the folder,
    `requested` the new one. `max_jobs` is the job count in the settings, if any.
    `wheel_variables` are added to the environment of the wheel command.
    """

    name: BackendName
    backend: CMakeBackend
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
        """Return the action that the build folder needs, without changing anything."""
        return choose_folder_action(self.rules, self.cache_entries, self.before, self.requested)

    def preview_ninja_build(self) -> ninja_steps_io.NinjaDryRun | None:
        """Return Ninja's dry run, or None if the steps are known only after CMake has run."""
        target = self.work.target or "all"
        return ninja_steps_io.preview_ninja_build(self.work.ninja, self.folder, target)


def resolve_build_folder(job: CompileJob) -> PurePath:
    """Return the CMake build folder of the job."""
    name, _, spec = _read_build_spec(job)
    return BACKENDS[name].find_build_folder(spec)


def _read_build_spec(job: CompileJob) -> tuple[BackendName, DepsManifest, BuildSpec]:
    manifest_path = job.layout.compute_manifest_path
    tree = Path(manifests.read_manifest(manifest_path("source"), SourceTree).tree)
    deps, pyproject = manifests.read_manifest(manifest_path("deps"), DepsManifest), ""
    with contextlib.suppress(FileNotFoundError):
        pyproject = (tree / "pyproject.toml").read_text(encoding="utf-8")
    name = detect_backend(pyproject) if job.backend == "auto" else job.backend
    return name, deps, create_build_spec(job, deps, tree)


def read_build_context(job: CompileJob, environment: Environment | None = None) -> BuildContext:
    """Return the build context. Without `environment`, the environment is read from env.json."""
    manifest = job.layout.compute_manifest_path("env")
    planned = environment or manifests.read_manifest(manifest, Environment)
    name, deps, spec = _read_build_spec(job)
    folder = BACKENDS[name].find_build_folder(spec)
    cache = build_folder_io.read_cmake_cache(folder)
    launchers = [cache.get(name, "") for name in LAUNCHER_VARIABLES if name.endswith("_LAUNCHER")]
    programs = [name.split(";")[0] for name in launchers if name]
    effective = planned
    if cache and all(map(cache_program_io.is_program_installed, programs)):
        effective = planned.keep_configured_launchers(cache)
    ninja = cache.get("CMAKE_MAKE_PROGRAM", "")
    if cache_program_io.is_program_installed(ninja):
        spec = replace(spec, ninja=ninja)
    rules = load_knowledge(Path(job.layout.project.knowledge)).folder_rules
    launcher = effective.set.get("CMAKE_CXX_COMPILER_LAUNCHER", "")
    max_jobs = effective.set.get("MAX_JOBS", "")
    requested_jobs = job.jobs or (int(max_jobs) if max_jobs.isdecimal() else None)
    jobs = requested_jobs if job.jobs_exact else None
    pool, variables = job.layout.jobserver, effective.set
    jobs = jobs or resolve_fixed_jobs(requested_jobs, pool, spec.ninja, deps, (launcher,))
    kernels = build_kernel_variables(spec.tree, variables, requested_jobs, elastic=jobs is None)
    effective = replace(effective, set={**variables, **kernels})
    requested = ConfigureFingerprint(effective.set, _identify_toolchain(deps, effective.set, spec))
    offered = [key for key in planned.offered if key in planned.set]
    return BuildContext(
        name=name,
        backend=BACKENDS[name],
        work=replace(spec, definitions=build_cmake_definitions(rules, requested), jobs=jobs),
        max_jobs=requested_jobs,
        folder=folder,
        rules=rules,
        cache_entries=cache,
        before=build_folder_io.read_configured_fingerprint(folder, cache, rules, requested),
        requested=requested,
        environment=effective,
        wheel_variables={key: effective.set.get(key, "") for key in offered},
    )


def create_build_spec(job: CompileJob, deps: DepsManifest, tree: PurePath) -> BuildSpec:
    """Return the build spec of a tree, without CMake definitions."""
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


def _identify_toolchain(
    deps: DepsManifest, variables: Mapping[str, str], work: BuildSpec
) -> dict[str, str]:
    """Return the version and path of each tool in use, by names such as `toolchain.cxx`."""
    # on Windows CC and CXX may be just `cl`: see tasks.stages.env.environment_variables
    cc, cxx = (variables.get(name, "") for name in ("CC", "CXX"))
    version_file = Path(work.tree) / "version.txt"
    programs = {
        "cc": deps.cc.path if cc in {"", "cl"} else cc,
        "cxx": deps.cxx.path if cxx in {"", "cl"} else cxx,
        "nvcc": variables.get("CUDACXX", ""),
        "cudahost": variables.get("CUDAHOSTCXX", ""),
        "cmake": deps.cmake.version.partition(".")[0],
        "python": deps.python,
        "python_version": deps.python_version,
        "ninja": work.ninja,
        "tree": str(work.tree),
        "release": version_file.read_text("utf-8").strip() if version_file.is_file() else "",
    }
    tools = {f"toolchain.{name}": value for name, value in programs.items() if value}
    return {name: toolchain.resolve_tool_identity(name, value) for name, value in tools.items()}


@dataclass(frozen=True)
class BuildPreview:
    """What a build would do to the build folder, and which steps Ninja would run.

    `ninja` is `None` if the steps are unknown until CMake has run. `last_object_count` is the
    number of objects in the last full build, 0 if unknown.
    """

    decision: FolderDecision
    ninja: ninja_steps_io.NinjaDryRun | None
    last_object_count: int

    def __str__(self) -> str:
        if self.decision.action in ("configure", "wipe"):
            count = self.last_object_count
            known = f" (the last full build compiled {count:,})" if count else ""
            return f"{self.decision}; Ninja will compile every object{known}"
        if self.ninja is None:
            return f"{self.decision}; CMake must run before the number of objects is known"
        counts = {"object": self.ninja.objects, "step": self.ninja.steps}
        objects, steps = (f"{n:,} {what}{'s' * (n != 1)}" for what, n in counts.items())
        more = "; CMake runs first and may add steps" if self.ninja.configures else ""
        return f"{self.decision}; Ninja would compile {objects} in {steps}{more}"


def preview_build(job: CompileJob, environment: Environment | None = None) -> BuildPreview | None:
    """Return the preview of a build, or None if an earlier stage has not run yet.

    `environment` is the planned environment; None uses the environment in env.json.
    """
    try:
        context = read_build_context(job, environment)
    except TorchyardError:
        return None
    decision = context.choose_action()
    ninja = context.preview_ninja_build() if decision.action == "reuse" else None
    runs = build_history_io.read_history(job.runs)
    full_builds = [run["objects"] for run in runs if run["decision"] in ("configure", "wipe")]
    last_steps = full_builds[-1] if full_builds else ()
    return BuildPreview(decision, ninja, sum(".o" in step["output"] for step in last_steps))
