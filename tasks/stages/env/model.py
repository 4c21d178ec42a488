"""The job and the manifests of the `env` stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from tasks.core.canonical_json import compute_text_sha256
from tasks.core.deps_model import CompilerCache
from tasks.core.model import Arch, Strategy, System

# The variables that enable or disable a compiler cache in a CMake build
LAUNCHER_VARIABLES = (
    "CMAKE_C_COMPILER_LAUNCHER",
    "CMAKE_CXX_COMPILER_LAUNCHER",
    "CMAKE_CUDA_COMPILER_LAUNCHER",
    "CMAKE_MSVC_DEBUG_INFORMATION_FORMAT",
    "USE_CCACHE",
)


@dataclass(frozen=True)
class Environment:
    """An environment: the manifest env.json (builds) or extension-env.json (extensions).

    `prepend` has the folders to prepend to PATH-like variables. `unset` are variables that must not
    be inherited from the user's shell. The user's values override those in `defaults`. `offered`
    are variables for which a configured build folder keeps its own values. `why` has the reason
    for each variable; it is empty for extensions.
    """

    set: Mapping[str, str]
    prepend: Mapping[str, tuple[str, ...]]
    unset: tuple[str, ...]
    separator: str
    defaults: Mapping[str, str] = field(default_factory=dict)
    offered: tuple[str, ...] = ()
    why: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The sorted names of all variables that the environment may change."""
        return tuple(sorted({*self.set, *self.defaults, *self.prepend, *self.unset}))

    def keep_configured_launchers(self, cache: Mapping[str, str]) -> Environment:
        """Return the environment for a build folder that is configured with this CMake cache.

        The `offered` variables keep the values in the cache, because another compiler cache would
        cause a full rebuild.
        """
        variables = {name: value for name, value in self.set.items() if name not in self.offered}
        configured = {name: cache[name] for name in self.offered if name in cache}
        return replace(self, set={**variables, **configured})

    def build_child_environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """Return all variables of a child process: `base` with the changes of this environment."""
        result = {**self.defaults, **base}
        for name in self.unset:
            result.pop(name, None)
        result.update(self.set)
        for name, folders in self.prepend.items():
            entries = [item for item in result.get(name, "").split(self.separator) if item]
            remaining = [item for item in entries if item not in folders]
            result[name] = self.separator.join([*folders, *remaining])
        return result


@dataclass(frozen=True)
class CacheEnvironment:
    """The manifest cache-env.json: the compiler cache launchers of extensions.

    This manifest is not an input of a stage, because a cache does not change build outputs. `set`
    and `defaults` are as in `Environment`. `wrapped` maps variables to commands: each variable is
    set to a script that runs the command.
    """

    cache: CompilerCache
    set: Mapping[str, str]
    defaults: Mapping[str, str]
    wrapped: Mapping[str, tuple[str, ...]]

    def build_compiler_environment(
        self, base: Mapping[str, str], own: Mapping[str, str]
    ) -> dict[str, str]:
        """Return `base` with the cache variables; the variables `own` override both."""
        result = {**self.defaults, **base, **self.set, **own}
        return {**result, **build_cache_namespace(self.cache, result)}


def build_cache_namespace(cache: CompilerCache, variables: Mapping[str, str]) -> dict[str, str]:
    """Return CCACHE_NAMESPACE with a digest of nvcc flags that ccache ignores, or {}."""
    flags = [variables.get(f"NVCC_{position}_FLAGS", "") for position in ("PREPEND", "APPEND")]
    if cache.kind != "ccache" or not any(flags):
        return {}
    namespace = variables.get("CCACHE_NAMESPACE", "")
    return {"CCACHE_NAMESPACE": namespace + compute_text_sha256("\n".join(flags))[:16]}


@dataclass(frozen=True)
class ArchLists:
    """The target GPU architectures, as a list for each build system.

    `torch` and `extensions` are TORCH_CUDA_ARCH_LIST for torch's CMake and for cpp_extension,
    `cmake` is CUDAARCHS for extensions that CMake builds.
    """

    torch: str = ""
    extensions: str = ""
    cmake: str = ""


@dataclass(frozen=True)
class EnvJob:
    """The inputs of the `env` stage.

    `flags`, `variables` and `caching` are the settings build.flags, build.env and build.cache.
    `deps`, `cache` and `source` are input manifests; `source` is `None` if torch is not built.
    `runtime` has more variables for the user's programs. `scripts` set the variables in a shell,
    `wrappers` start a program. `distribute` is the wrapper script for distributed compilation, or
    "" without distributed compilation.
    """

    profile: str
    system: System
    strategy: Strategy
    cuda: str | None
    torch: str
    targets: tuple[Arch, ...]
    ptx: bool
    arch_lists: ArchLists
    build_type: str
    blas: str
    flags: Mapping[str, bool | str]
    variables: Mapping[str, str]
    runtime: Mapping[str, str]
    caching: str
    cache_size: str
    venv: PurePath
    deps: PurePath
    cache: PurePath
    source: PurePath | None
    scripts: tuple[PurePath, ...]
    wrappers: tuple[PurePath, ...]
    templates: PurePath
    log: PurePath
    distribute: str = ""
