"""Select the environment variables that enable a compiler cache and raise its hit rate.

Manuals: ccache's doc/manual.adoc (4.7 to 4.13), sccache's docs/Configuration.md (0.16). Test
results with nvcc and torch's cpp_extension are in config/knowledge/pytorch.yaml, compiler-cache-*.
"""

import shlex
from collections.abc import Mapping
from itertools import takewhile

from tasks.core.deps_model import CompilerCache, DepsManifest
from tasks.stages.env.model import LAUNCHER_VARIABLES, CacheEnvironment, EnvJob

_CXX_LAUNCHERS, _CUDA_LAUNCHER = LAUNCHER_VARIABLES[:2], LAUNCHER_VARIABLES[2]
_DEFAULT_CACHE_SIZE = "20G"
_CACHE_PREFIXES = ("CCACHE_", "SCCACHE_")
# Seconds that sccache's server waits for work. The default of 600 is too short: builds of PyTorch's
# CI fail with it (.ci/pytorch/win-test-helpers/set_vars.bat)
_IDLE_TIMEOUT = "3600"

# Each value disables a check that lowers the hit rate and finds nothing in these builds:
_SLOPPINESS = (
    # ccache caches a precompiled header (USE_PRECOMPILED_HEADERS) only with these two values
    "pch_defines",
    "time_macros",
    # ccache assumes that a header newer than the compiler's start may still change; here, Ninja
    # has waited for the step that generated or copied the header
    "include_file_mtime",
    "include_file_ctime",
    # a locale changes only the language of the warnings
    "locale",
)
# Environment variable → key in the configuration file of the compiler cache
_CACHE_KEYS = {
    "CCACHE_BASEDIR": "base_dir",
    "CCACHE_ABSSTDERR": "absolute_paths_in_stderr",
    "CCACHE_NOHASHDIR": "hash_dir",
    "CCACHE_SLOPPINESS": "sloppiness",
    "CCACHE_COMPILERCHECK": "compiler_check",
    "CCACHE_MAXSIZE": "max_size",
    "SCCACHE_BASEDIRS": "basedirs",
    "SCCACHE_CACHE_SIZE": "size",
}


def select_launchers(cache: CompilerCache, job: EnvJob) -> dict[str, str]:
    """Return the launcher variables of torch's build. build.env and build.flags take precedence.

    If caching is off, USE_CCACHE=0 keeps torch's CMake from searching for ccache.
    """
    distribution = dict.fromkeys(_CXX_LAUNCHERS, job.distribute) if job.distribute else {}
    if job.caching == "off" or job.flags.get("USE_CCACHE") is False:
        return {"USE_CCACHE": "0", **distribution}
    if not cache.kind:
        return distribution
    if job.system != "windows":
        return dict.fromkeys([*_CXX_LAUNCHERS, *([_CUDA_LAUNCHER] if job.cuda else [])], cache.path)
    # no launcher for nvcc: it has a race condition with a cache on Windows (windows-flags in
    # pytorch.yaml)
    launchers = dict.fromkeys(_CXX_LAUNCHERS, cache.path.replace("\\", "/"))
    if job.build_type == "Release":
        return launchers
    # /Z7: with /Zi all compilers write into one .pdb, which cannot be cached
    return {**launchers, "CMAKE_MSVC_DEBUG_INFORMATION_FORMAT": "Embedded"}


def list_optional_launchers(job: EnvJob) -> tuple[str, ...]:
    """Return the names of the launcher variables that the user has not set."""
    if job.caching not in {"auto", "off"}:
        return ()
    return tuple(name for name in LAUNCHER_VARIABLES if name not in {*job.variables, *job.flags})


def build_cache_environment(
    job: EnvJob, deps: DepsManifest, cache: CompilerCache
) -> CacheEnvironment:
    """Return the variables that enable the compiler cache for extensions.

    CXX must name a wrapper script, because torch's cpp_extension does not accept "ccache g++". On
    Windows, no cache is used, because cpp_extension always calls `cl`.
    """
    variables = {"TORCH_NO_COMPILER_WRAPPER": "1"}
    if not cache.kind or job.caching == "off" or job.system == "windows":
        return CacheEnvironment(CompilerCache(), variables, {}, {})
    wrapped = {"CXX": (cache.path, deps.cxx.path)}
    if job.cuda and deps.toolkit:
        # cpp_extension runs PYTORCH_NVCC unchanged. ccache before 4.13 and sccache before 0.9
        # do not cache if nvcc writes a dependency file, which a build in a fresh copy does not need
        variables |= {
            "PYTORCH_NVCC": shlex.join([cache.path, f"{deps.toolkit.home}/bin/nvcc"]),
            "TORCH_EXTENSION_SKIP_NVCC_GEN_DEPENDENCIES": "1",
            _CUDA_LAUNCHER: cache.path,
        }
    else:
        # with CUDA, cpp_extension passes CC to nvcc as host compiler: the cache would identify this
        # compiler by the bytes of the wrapper script
        wrapped["CC"] = (cache.path, deps.cc.path)
    tuning = compute_cache_tuning(job, deps, cache, str(job.venv.parent), debug=False)
    defaults = {**tuning, **select_cache_settings(job.variables)}
    return CacheEnvironment(cache, variables, defaults, wrapped)


def compute_cache_tuning(
    job: EnvJob, deps: DepsManifest, cache: CompilerCache, base: str, *, debug: bool | None = None
) -> dict[str, str]:
    """Return the variables that raise the hit rate of the compiler cache.

    The cache makes paths below the folder `base` relative. Settings in the user's configuration of
    the cache take precedence. `debug` says whether debuggers need the source paths; `None` derives
    this from the build type.
    """
    if not cache.kind:
        # a build folder may have been configured with ccache
        return {"CCACHE_DISABLE": "1"} if job.caching == "off" else {}
    size = _DEFAULT_CACHE_SIZE if job.cache_size == "auto" else job.cache_size
    if cache.kind == "sccache":  # sccache's server reads these only at its start
        tuning = {
            "SCCACHE_CACHE_SIZE": size,
            "SCCACHE_IDLE_TIMEOUT": _IDLE_TIMEOUT,
            "SCCACHE_IGNORE_SERVER_IO_ERROR": "1",
            **({"SCCACHE_BASEDIRS": base} if base else {}),
        }
    else:
        is_release = job.build_type == "Release" if debug is None else not debug
        # compilers from wheels have a new modification time in each environment
        has_wheel_compilers = bool(deps.toolkit and deps.toolkit.pins)
        tuning = {
            "CCACHE_MAXSIZE": size,
            "CCACHE_SLOPPINESS": ",".join(_SLOPPINESS),
            **({"CCACHE_BASEDIR": base, "CCACHE_ABSSTDERR": "1"} if base else {}),
            **({"CCACHE_COMPILERCHECK": "content"} if has_wheel_compilers else {}),
            # debug information contains the working directory
            **({"CCACHE_NOHASHDIR": "1"} if is_release else {}),
        }
    user_settings = set(cache.own) - ({"max_size", "size"} if job.cache_size != "auto" else set())
    return {name: v for name, v in tuning.items() if _CACHE_KEYS.get(name) not in user_settings}


def find_base_dir(job: EnvJob, tree: str) -> str:
    """Return the common parent of the tree and the build folder, for paths relative to it.

    The result is the tree if the parent is a folder such as /home, and the build folder if `tree`
    is "".
    """
    build = job.venv.parent
    if not tree:
        return str(build)
    pairs = zip(type(build)(tree).parts, build.parts, strict=False)
    common = [one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]
    return str(type(build)(*common)) if len(common) > 2 else tree


def select_cache_settings(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of build.env that configure ccache or sccache."""
    return {name: value for name, value in variables.items() if name.startswith(_CACHE_PREFIXES)}
