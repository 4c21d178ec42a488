"""Why each variable is set, unset or prepended to, in a few words for who reads a script. Pure.

What a fact in config/knowledge or a manual says at length is told there; here is what it is for.
"""

from __future__ import annotations

from dataclasses import replace

from tasks.core.deps_model import DepsManifest
from tasks.stages.env import leaks
from tasks.stages.env.job import Environment, EnvJob

MAX_JOBS_REASON = (
    "for use by hand: as many compilers as fit into memory; the tool goes by what is free"
)

_NO_USER_SITE_REASON = "packages of the user's own folder would shadow those of this environment"
_LAUNCHER_REASON = "the compiler cache, or what hands on to other machines, stands before it"
_CACHE_REASON = "lets the compiler cache hit in another folder, or checkout"
SET_REASONS = {
    "PYTHONNOUSERSITE": _NO_USER_SITE_REASON,
    "VIRTUAL_ENV": "the environment that torch and the extensions are installed into",
    "PYTHONPATH": "build tools that lie beside the existing interpreter",
    "VSLANG": "compilers say what they have to say in English",
    "MSSDK": "what older releases of setuptools ask for beside DISTUTILS_USE_SDK",
    "DISTUTILS_USE_SDK": "setuptools is to take the compiler of this MSVC environment",
    "CC": "the C compiler that was found fit; nvcc's host compiler for cpp_extension",
    "CXX": "the C++ compiler that was found fit",
    "CUDAHOSTCXX": "CMake gives it to nvcc as host compiler",
    "CUDA_HOME": "the toolkit of this profile, for cpp_extension",
    "CUDA_PATH": "the toolkit of this profile, for CMake and nvcc on Windows",
    "CUDACXX": "the nvcc of this profile, for CMake",
    "TORCH_CUDA_ARCH_LIST": "the targets, as torch reads them",
    "CUDAARCHS": "the targets, as CMake reads them",
    "CL": "options of cl.exe that this toolkit and torch need",
    "NVCC_APPEND_FLAGS": "options of nvcc that this toolkit and torch need",
    "USE_CUDA": "whether torch is built with CUDA",
    "USE_CCACHE": "keeps torch's CMake from looking for a ccache of its own",
    "CMAKE_C_COMPILER_LAUNCHER": _LAUNCHER_REASON,
    "CMAKE_CXX_COMPILER_LAUNCHER": _LAUNCHER_REASON,
    "CMAKE_CUDA_COMPILER_LAUNCHER": _LAUNCHER_REASON,
    "CMAKE_MSVC_DEBUG_INFORMATION_FORMAT": "/Z7: a cache cannot hold one .pdb that all write into",
    "CMAKE_GENERATOR": "Ninja compiles what changed, and takes its jobs from the pool",
    "CMAKE_BUILD_TYPE": "build.type says so",
    "CMAKE_LINK_DEPENDS_NO_SHARED": "a changed library does not link again what uses it",
    "CMAKE_BUILD_RPATH_USE_ORIGIN": "the wheel has the same bytes in whichever folder it is made",
    "CMAKE_PREFIX_PATH": "MKL of Python packages lies in the environment",
    "BLAS": "build.blas says so",
    "CCACHE_NAMESPACE": "keeps objects apart by nvcc's own variables, which ccache does not see",
    "CCACHE_DISABLE": "build.cache is off, and a folder may have been configured with ccache",
    "CCACHE_MAXSIZE": "how big the compiler cache may get",
    "SCCACHE_CACHE_SIZE": "how big the compiler cache may get",
    "CCACHE_SLOPPINESS": "checks that cost hits and find nothing here",
    "CCACHE_BASEDIR": _CACHE_REASON,
    "SCCACHE_BASEDIRS": _CACHE_REASON,
    "CCACHE_ABSSTDERR": "compilers' messages keep whole paths",
    "CCACHE_COMPILERCHECK": "a compiler that came in a wheel is known by its bytes, not its time",
    "CCACHE_NOHASHDIR": _CACHE_REASON,
    "SCCACHE_IDLE_TIMEOUT": "its server is to outlive the longest compilation",
    "SCCACHE_IGNORE_SERVER_IO_ERROR": "a server that went away is no reason to fail",
    "CUDA_LAUNCH_BLOCKING": "errors are told at the kernel that made them",
}
_PREPEND_REASONS = {
    "PATH": "this profile's programs go before those of the same name",
    "LD_LIBRARY_PATH": "torch is linked against this toolkit, which the loader does not know",
}


def add_build_reasons(job: EnvJob, deps: DepsManifest, environment: Environment) -> Environment:
    """The environment of a build, with its reasons."""
    asked = _explain_msvc_variables(deps)
    if job.strategy == "source":
        asked |= dict.fromkeys(job.flags, "build.flags says so")
        asked |= dict.fromkeys(job.variables, "build.env says so")
    return _attach_reasons(environment, asked)


def add_runtime_reasons(job: EnvJob, deps: DepsManifest, environment: Environment) -> Environment:
    """The environment of programs that run, with its reasons."""
    asked = _explain_msvc_variables(deps) | dict.fromkeys(job.runtime, "runtime.env says so")
    if job.runtime.get("CUDA_LAUNCH_BLOCKING") == "1":
        del asked["CUDA_LAUNCH_BLOCKING"]  # whichever setting asked for it, this is what it is for
    return _attach_reasons(environment, asked)


def _explain_msvc_variables(deps: DepsManifest) -> dict[str, str]:
    """Windows knows a name in any case, and the environment has it in capitals."""
    if not deps.msvc:
        return {}
    return {name.upper(): deps.msvc.by for name in deps.msvc.set}


def _attach_reasons(environment: Environment, asked: dict[str, str]) -> Environment:
    found = {
        **leaks.UNSET_REASONS,
        **SET_REASONS,
        **asked,
        **{name: _PREPEND_REASONS.get(name, "") for name in environment.prepend},
        # one that is asked for and empty is, on Windows, one that is taken away
        **{name: asked.get(name, leaks.UNSET_REASONS.get(name, "")) for name in environment.unset},
    }
    return replace(environment, why={n: found[n] for n in environment.names if found.get(n)})
