"""A compiler cache as variables: what puts it before the compilers, and what makes it hit.

The manuals: ccache's doc/manual.adoc (4.7 to 4.13), sccache's docs/Configuration.md (0.16). What
was tried with nvcc and torch's cpp_extension is in config/knowledge/pytorch.yaml, compiler-cache-*.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from itertools import takewhile

from tasks.core.deps_model import CompilerCache, DepsManifest
from tasks.stages.env.model import LAUNCHER_VARIABLES, CacheEnvironment, EnvJob

_CXX_LAUNCHERS, _CUDA_LAUNCHER = LAUNCHER_VARIABLES[:2], LAUNCHER_VARIABLES[2]
_DEFAULT_CACHE_SIZE = "20G"
_CACHE_PREFIXES = ("CCACHE_", "SCCACHE_")
# Seconds that sccache's server waits for work. Its own 600 are too few: PyTorch's CI has builds
# that fail with them (.ci/pytorch/win-test-helpers/set_vars.bat)
_IDLE_TIMEOUT = "3600"

# Each of these gives up a check that costs hits here and finds nothing:
_SLOPPINESS = (
    # a precompiled header (USE_PRECOMPILED_HEADERS) is cached with these two or not at all
    "pch_defines",
    "time_macros",
    # headers that are newer than the compiler's start are taken for files that still change; here
    # they were generated, or copied, by a step that Ninja has waited for
    "include_file_mtime",
    "include_file_ctime",
    # the language of the warnings
    "locale",
)
# Our variable → the name it has in a person's configuration
_CCACHE_NAMES = {
    "CCACHE_BASEDIR": "base_dir",
    "CCACHE_ABSSTDERR": "absolute_paths_in_stderr",
    "CCACHE_NOHASHDIR": "hash_dir",
    "CCACHE_SLOPPINESS": "sloppiness",
    "CCACHE_COMPILERCHECK": "compiler_check",
    "CCACHE_MAXSIZE": "max_size",
}
_SCCACHE_NAMES = {"SCCACHE_BASEDIRS": "basedirs", "SCCACHE_CACHE_SIZE": "size"}


def select_launchers(cache: CompilerCache, asked: str, job: EnvJob) -> dict[str, str]:
    """The launchers of torch's own build; what build.env and build.flags say comes after them.
    ccache calls by itself what hands compilations on: command lines are the same with it.

    Left alone, torch's tree looks for ccache itself: USE_CCACHE keeps it from that.
    """
    alone = dict.fromkeys(_CXX_LAUNCHERS, job.distribute) if job.distribute else {}
    if asked == "off" or job.flags.get("USE_CCACHE") is False:
        return {"USE_CCACHE": "0", **alone}
    if not cache.kind:
        return alone
    if job.system != "windows":
        return dict.fromkeys([*_CXX_LAUNCHERS, *([_CUDA_LAUNCHER] if job.cuda else [])], cache.path)
    # not nvcc, which races behind a cache there (pytorch.yaml, windows-flags)
    given = dict.fromkeys(_CXX_LAUNCHERS, cache.path.replace("\\", "/"))
    if job.build_type == "Release":
        return given
    # /Z7: with /Zi all compilers write into one .pdb, which no cache can hold
    return {**given, "CMAKE_MSVC_DEBUG_INFORMATION_FORMAT": "Embedded"}


def list_optional_launchers(job: EnvJob) -> tuple[str, ...]:
    """What a configured folder need not take: all that nobody asked for by name."""
    if job.caching not in {"auto", "off"}:
        return ()
    return tuple(name for name in LAUNCHER_VARIABLES if name not in {*job.variables, *job.flags})


def build_cache_environment(
    job: EnvJob, deps: DepsManifest, cache: CompilerCache
) -> CacheEnvironment:
    """What puts the cache before the compilers of an extension.

    From 2.14 on torch's cpp_extension takes a ccache or sccache of PATH by itself, whichever was
    asked for; and it takes CXX for the name of one program, so that "ccache g++" breaks it. On
    Windows it calls cl by that name.
    """
    alone = {"TORCH_NO_COMPILER_WRAPPER": "1"}
    if not cache.kind or job.caching == "off" or job.system == "windows":
        return CacheEnvironment(CompilerCache(), alone, {}, {})
    wrapped = {"CXX": (cache.path, deps.cxx.path)}
    nvcc = {}
    if job.cuda and deps.toolkit:
        nvcc = _build_nvcc_variables(cache, f"{deps.toolkit.home}/bin/nvcc")
    else:
        # with CUDA, cpp_extension gives CC to nvcc as its host compiler, and the cache would then
        # know it by the bytes of our script
        wrapped["CC"] = (cache.path, deps.cc.path)
    tuned = compute_cache_tuning(job, deps, cache, str(job.venv.parent), debug=False)
    return CacheEnvironment(
        cache, {**alone, **nvcc}, {**tuned, **select_cache_settings(job.variables)}, wrapped
    )


def _build_nvcc_variables(cache: CompilerCache, nvcc: str) -> dict[str, str]:
    """For cpp_extension's Ninja file, which takes PYTORCH_NVCC as it is, and for CMake.

    The option by which torch has nvcc write a dependency file is no option to ccache before 4.13
    and sccache before 0.9: they give up. An extension is compiled once, in a fresh copy.
    """
    return {
        "PYTORCH_NVCC": shlex.join([cache.path, nvcc]),
        "TORCH_EXTENSION_SKIP_NVCC_GEN_DEPENDENCIES": "1",
        _CUDA_LAUNCHER: cache.path,
    }


def compute_cache_tuning(
    job: EnvJob, deps: DepsManifest, cache: CompilerCache, base: str, *, debug: bool | None = None
) -> dict[str, str]:
    """What makes the cache hit, in another checkout too; `base` is the folder that they share.

    A setting that a person made in the cache's own configuration is left to it. `debug` says
    whether debuggers will look for the sources.
    """
    if not cache.kind:
        # for a folder that was configured with it
        return {"CCACHE_DISABLE": "1"} if job.caching == "off" else {}
    size = _DEFAULT_CACHE_SIZE if job.cache_size == "auto" else job.cache_size
    if cache.kind == "sccache":
        given = _tune_sccache(size, base)
    else:
        release = job.build_type == "Release" if debug is None else not debug
        given = _tune_ccache(size, base, wheels=_has_wheel_compilers(deps), release=release)
    own = set(cache.own) - ({"max_size", "size"} if job.cache_size != "auto" else set())
    known = {**_CCACHE_NAMES, **_SCCACHE_NAMES}
    return {name: value for name, value in given.items() if known.get(name) not in own}


def _tune_ccache(size: str, base: str, *, wheels: bool, release: bool) -> dict[str, str]:
    """Compilers that came in wheels have a new time in each environment, and the same bytes. The
    compiler's folder is part of the key of what has debug information, unless nobody debugs.
    """
    return {
        "CCACHE_MAXSIZE": size,
        "CCACHE_SLOPPINESS": ",".join(_SLOPPINESS),
        **({"CCACHE_BASEDIR": base, "CCACHE_ABSSTDERR": "1"} if base else {}),
        **({"CCACHE_COMPILERCHECK": "content"} if wheels else {}),
        **({"CCACHE_NOHASHDIR": "1"} if release else {}),
    }


def _tune_sccache(size: str, base: str) -> dict[str, str]:
    """Its server takes these when it is started; one that runs already keeps what it has."""
    return {
        "SCCACHE_CACHE_SIZE": size,
        "SCCACHE_IDLE_TIMEOUT": _IDLE_TIMEOUT,
        # compile without it rather than fail where the server went away
        "SCCACHE_IGNORE_SERVER_IO_ERROR": "1",
        **({"SCCACHE_BASEDIRS": base} if base else {}),
    }


def find_base_dir(job: EnvJob, tree: str) -> str:
    """The folder that holds both the tree and our build folder, below which paths are taken as
    relative ones; the tree alone where that would be all of the disk, or all homes.
    """
    build = job.venv.parent
    if not tree:
        return str(build)
    pairs = zip(type(build)(tree).parts, build.parts, strict=False)
    shared = [one for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]
    return str(type(build)(*shared)) if len(shared) > 2 else tree


def select_cache_settings(variables: Mapping[str, str]) -> dict[str, str]:
    """A person's settings of a compiler cache among the variables of build.env."""
    return {name: value for name, value in variables.items() if name.startswith(_CACHE_PREFIXES)}


def _has_wheel_compilers(deps: DepsManifest) -> bool:
    return bool(deps.toolkit and deps.toolkit.pins)
