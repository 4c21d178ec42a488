"""Define the job and the manifests of the `deps` stage."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Literal

from tasks.core.model import LockedPackages

# Ninja 1.13.0 breaks link.exe's response files on Windows; older releases have no jobserver
MIN_NINJA_VERSION = "1.13.1"


@dataclass(frozen=True)
class CompilerLimits:
    """The accepted versions of host compilers. None and "" mean no limit.

    `gcc_max`, `clang_max` (major versions) and `msvc` are limits of the CUDA toolkit `cuda`
    ("12.8", "" if unknown). `msvc` is the first accepted _MSC_VER and the first that is too new.
    `gcc_min` is the oldest GCC for the sources of the PyTorch release `torch`.
    """

    cuda: str = ""
    gcc_max: int | None = None
    clang_max: int | None = None
    msvc: tuple[int, int] | None = None
    torch: str = ""
    gcc_min: str = ""


@dataclass(frozen=True)
class Program:
    """An installed program. `digest` identifies the file of a compiler, "" for other programs."""

    path: str
    version: str
    digest: str = ""


@dataclass(frozen=True)
class CudaHome:
    """A CUDA toolkit that can be used as CUDA_HOME.

    `version` is the full version, "13.2.86". `pins` are the requirements that installed the toolkit
    ("nvidia-cuda-nvcc==13.2.86"), empty for a system toolkit.
    """

    home: str
    version: str
    pins: tuple[str, ...]


@dataclass(frozen=True)
class MsvcEnvironment:
    """The variables and PATH folders that MSVC needs; `by` names the script that sets them."""

    by: str
    set: Mapping[str, str]
    path: tuple[str, ...]


@dataclass(frozen=True)
class CompilerCache:
    """The manifest cache.json: the compiler cache to use.

    `kind` is "" without a cache. `own` names the settings that the user has configured
    ("max_size"). The cache is not in deps.json, since a change of cache must not rebuild
    extensions.
    """

    kind: Literal["ccache", "sccache", ""] = ""
    path: str = ""
    version: str = ""
    own: tuple[str, ...] = ()


@dataclass(frozen=True)
class DepsManifest:
    """The manifest deps.json: the build environment.

    `python` is the interpreter that has torch or gets it. `overlay` is a folder of build tools for
    an existing interpreter. `scripts` is the folder of the programs of the environment. `identity`
    changes when the environment is recreated. The paths of `cc` and `cxx` can be "" if nothing is
    compiled. `msvc` is the environment that these compilers need on Windows.
    """

    python: str
    python_version: str
    identity: str
    overlay: str | None
    scripts: str
    toolkit: CudaHome | None
    cuobjdump: str | None
    cc: Program
    cxx: Program
    cmake: Program
    ninja: Program
    git: Program | None
    msvc: MsvcEnvironment | None = None

    @property
    def compilers(self) -> tuple[Program, ...]:
        """Return the C and C++ compilers that were found."""
        return tuple(compiler for compiler in dict.fromkeys((self.cc, self.cxx)) if compiler.path)


@dataclass(frozen=True)
class ToolchainStamps:
    """The manifest toolchain.json: size and modification time of the toolchain's files, by path."""

    files: Mapping[str, str]


@dataclass(frozen=True)
class DepsJob:
    """The job of the `deps` stage.

    `base` is the interpreter to create the environment from or, with `existing`, the one that has
    torch. `tools` and `toolkit_packages` are requirements. `toolkit_home` is the folder of an
    installed toolkit. `cache_package` is the compiler cache to install if none is found, "" if none
    may be downloaded. `launchers` has the compiler launchers that build.env sets, by variable.
    `compiles` is True if a later stage needs a compiler.

    `locked` are the packages that torchyard.lock pins for the environment, `locked_toolkit` those
    for `toolkit_folder`. They are not in the fingerprint: a changed lock reruns the stage only if
    it differs from the installed packages.
    """

    base: str
    existing: bool
    tools: tuple[str, ...]
    toolkit_provider: str
    toolkit_home: str
    toolkit_packages: tuple[str, ...]
    with_cuda: bool
    gcc_max: int | None
    cc: str | None
    cxx: str | None
    git_needed: str
    system_blas: str
    cache: str
    cache_package: str
    launchers: Mapping[str, str]
    venv: PurePath
    overlay: PurePath
    toolkit_folder: PurePath
    cuda_home: PurePath
    manifest: PurePath
    stamps: PurePath
    log: PurePath
    limits: CompilerLimits = field(default_factory=CompilerLimits)
    compiles: bool = True
    locked: LockedPackages = field(default_factory=dict)
    locked_toolkit: LockedPackages = field(default_factory=dict)
