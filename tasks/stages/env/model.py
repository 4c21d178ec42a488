"""What env is given and what it leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from tasks.core.canonical_json import compute_text_sha256
from tasks.core.deps_model import CompilerCache
from tasks.core.model import Arch, Strategy, System

# What puts a compiler cache into a CMake build, or keeps it out
LAUNCHER_VARIABLES = (
    "CMAKE_C_COMPILER_LAUNCHER",
    "CMAKE_CXX_COMPILER_LAUNCHER",
    "CMAKE_CUDA_COMPILER_LAUNCHER",
    "CMAKE_MSVC_DEBUG_INFORMATION_FORMAT",
    "USE_CCACHE",
)


@dataclass(frozen=True)
class Environment:
    """The manifests env.json (source builds) and extension-env.json (extensions).

    `set` are variables with their exact value, `prepend` are folders put before what PATH-like
    variables hold, and `unset` are variables that would change what is compiled and must not leak
    in from a person's shell. `defaults` are variables that give way to a person's own; they change
    nothing of what is compiled. `offered` are names that a folder which CMake has configured need
    not take: see `settled`. `why` has the reason for each of these variables, for people; that of
    extensions holds none, so that a better sentence makes no extension run again.
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
        """Every variable that it may change, sorted."""
        return tuple(sorted({*self.set, *self.defaults, *self.prepend, *self.unset}))

    def keep_configured_launchers(self, held: Mapping[str, str]) -> Environment:
        """For a folder that CMake has configured, with `held` in its cache.

        A compiler cache that came or went in the meantime would change every command line, and so
        compile everything again: what is only offered stays as it was configured.
        """
        kept = {name: value for name, value in self.set.items() if name not in self.offered}
        configured = {name: held[name] for name in self.offered if name in held}
        return replace(self, set={**kept, **configured})

    def build_child_environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """The whole environment of a child that would otherwise have `base`; no empty elements."""
        result = {**self.defaults, **base}
        for name in self.unset:
            result.pop(name, None)
        result.update(self.set)
        for name, folders in self.prepend.items():
            before = [item for item in result.get(name, "").split(self.separator) if item]
            kept = [item for item in before if item not in folders]
            result[name] = self.separator.join([*folders, *kept])
        return result


@dataclass(frozen=True)
class CacheEnvironment:
    """The manifest cache-env.json: what puts a compiler cache before an extension's compilers.

    No stage has it among its reads: with a cache or without one, the same comes out. `set` and
    `defaults` are as in `Environment`; `wrapped` are variables that have to name one single
    program, with the words that it stands for.
    """

    cache: CompilerCache
    set: Mapping[str, str]
    defaults: Mapping[str, str]
    wrapped: Mapping[str, tuple[str, ...]]

    def build_compiler_environment(
        self, base: Mapping[str, str], own: Mapping[str, str]
    ) -> dict[str, str]:
        """The whole environment of a build that would have `base`; `own` is what goes before
        ours.
        """
        result = {**self.defaults, **base, **self.set, **own}
        return {**result, **build_cache_namespace(self.cache, result)}


def build_cache_namespace(cache: CompilerCache, variables: Mapping[str, str]) -> dict[str, str]:
    """Keeps results apart by nvcc's own variables, which ccache does not look at.

    Without it an object that was compiled with NVCC_APPEND_FLAGS=-DX is served to a compile that
    does not have it. Extensions get their forced headers this way.
    """
    flags = [variables.get(f"NVCC_{place}_FLAGS", "") for place in ("PREPEND", "APPEND")]
    if cache.kind != "ccache" or not any(flags):
        return {}
    own = variables.get("CCACHE_NAMESPACE", "")
    return {"CCACHE_NAMESPACE": own + compute_text_sha256("\n".join(flags))[:16]}


@dataclass(frozen=True)
class ArchLists:
    """The targets as TORCH_CUDA_ARCH_LIST for torch's own CMake and for its extension builder, and
    as CUDAARCHS for extensions that CMake builds.
    """

    torch: str = ""
    extensions: str = ""
    cmake: str = ""


@dataclass(frozen=True)
class EnvJob:
    """What the environment is resolved from.

    `flags` and `variables` are the settings build.flags and build.env, `deps` and `source` the
    manifests to read (`source` only with strategy source). `runtime` are variables that programs
    run with, beside what running them takes. `scripts` are the files to render for a shell to read,
    `wrappers` those that run a program, all from one template folder. `caching` and `cache_size`
    are the settings build.cache and build.cache_size, `cache` the manifest that says which one is
    here. `distribute` is the script that hands compilations to other machines, "" where none do.
    `arch_lists` are the targets as each reader wants them.
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
