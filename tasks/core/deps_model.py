"""Define the job and the manifests of the deps stage."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Literal

from tasks.core.model import LockedPackages

# The oldest accepted Ninja. 1.11.1 loops, 1.13.0 breaks link.exe's response files on Windows, and
# releases before 1.13 do not support a jobserver (config/knowledge, windows notes)
MIN_NINJA_VERSION = "1.13.1"


@dataclass(frozen=True)
class CompilerLimits:
    """The accepted versions of host compilers. None and "" mean no limit.

    `gcc_max` and `clang_max` are major versions, inclusive. `msvc` is the lowest accepted _MSC_VER
    and the first rejected one. These three are the limits of the CUDA toolkit `cuda` ("12.8", "" if
    only a limit is known). `gcc_min` is the oldest GCC that the sources of PyTorch `torch` accept.
    """

    cuda: str = ""
    gcc_max: int | None = None
    clang_max: int | None = None
    msvc: tuple[int, int] | None = None
    torch: str = ""
    gcc_min: str = ""


@dataclass(frozen=True)
class Program:
    """An installed program: absolute path, and version, "" if the program reports none.

    `digest` is the digest of a compiler's file, "" for other programs.
    """

    path: str
    version: str
    digest: str = ""


@dataclass(frozen=True)
class CudaHome:
    """A toolkit that nvcc, CMake and cpp_extension accept as CUDA_HOME.

    `pins` are the exact requirements that installed the toolkit ("nvidia-cuda-nvcc==13.2.86"), and
    constraints for every later install; empty for a system toolkit. `version` is the full version,
    "13.2.86".
    """

    home: str
    version: str
    pins: tuple[str, ...]


@dataclass(frozen=True)
class MsvcEnvironment:
    """The environment of MSVC: variables with their values, and the folders to prepend to PATH.

    `by` names the source of the environment, for messages.
    """

    by: str
    set: Mapping[str, str]
    path: tuple[str, ...]


@dataclass(frozen=True)
class CompilerCache:
    """The manifest cache.json: the compiler cache that is used as compiler launcher.

    The manifest is separate from deps.json so that a changed cache does not rebuild the extensions,
    which read deps.json. `own` names the settings in the user's configuration of the cache
    ("max_size").
    """

    kind: Literal["ccache", "sccache", ""] = ""
    path: str = ""
    version: str = ""
    own: tuple[str, ...] = ()


@dataclass(frozen=True)
class DepsManifest:
    """The manifest deps.json: the build environment.

    `python` is the interpreter that torch is, or will be, installed for. `overlay` is a folder of
    build tools for an existing interpreter. `identity` changes when the environment is recreated,
    so that everything is installed again. The paths of `cc` and `cxx` are "" if no accepted
    compiler was found and nothing is compiled. `msvc` is the environment that these compilers need
    on Windows.
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
    """The manifest toolchain.json, which only the deps stage reads.

    `files` has the size and modification time of each compiler and of a Windows SDK header, by
    path.
    """

    files: Mapping[str, str]


@dataclass(frozen=True)
class DepsJob:
    """The job of the deps stage.

    `base` is the interpreter that the environment is created from; if `existing`, the interpreter
    that already has torch. `tools` and `toolkit_packages` are requirements. `toolkit_home` is the
    folder of an installed toolkit. `cache` is the setting build.cache. `cache_package` is the
    requirement that installs a compiler cache if none is installed, "" if none may be downloaded.
    `launchers` has the compiler launchers that build.env sets, by variable.

    `limits` are the compiler versions that the toolkit and the sources accept; of them, only
    `gcc_max` is in the fingerprint of the stage. `compiles` says whether a later stage needs a
    compiler. `locked` has the packages that torchyard.lock pins for the environment,
    `locked_toolkit` those for `toolkit_folder`. Neither is in the fingerprint, because the
    installed packages may already match them.
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
