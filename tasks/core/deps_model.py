"""What deps is given and what it leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Literal

from tasks.core.model import LockedPackages

# The oldest Ninja that a build gets: 1.11.1 loops and 1.13.0 breaks link.exe's response files on
# Windows, and those before 1.13 know no jobserver (config/knowledge, windows notes)
MIN_NINJA_VERSION = "1.13.1"


@dataclass(frozen=True)
class CompilerLimits:
    """The host compilers that are taken; None and "" are no limit.

    `gcc_max` and `clang_max` are majors, inclusive, `msvc` the lowest _MSC_VER and the first that
    is rejected: those of the toolkit `cuda` ("12.8"; "" where only a limit is known). `gcc_min` is
    that of the sources of PyTorch `torch`.
    """

    cuda: str = ""
    gcc_max: int | None = None
    clang_max: int | None = None
    msvc: tuple[int, int] | None = None
    torch: str = ""
    gcc_min: str = ""


@dataclass(frozen=True)
class Program:
    """A program that was found: absolute path and version, "" where it tells none. `digest` is that
    of its file, for compilers.
    """

    path: str
    version: str
    digest: str = ""


@dataclass(frozen=True)
class CudaHome:
    """A toolkit that nvcc, CMake and cpp_extension accept as CUDA_HOME.

    `pins` are the exact requirements that made it ("nvidia-cuda-nvcc==13.2.86"), constraints for
    every later install; empty for a toolkit of the system. `version` is in full, "13.2.86".
    """

    home: str
    version: str
    pins: tuple[str, ...]


@dataclass(frozen=True)
class MsvcEnvironment:
    """The environment of MSVC: variables with their value, and the folders that go before PATH.
    `by` is what made it, for people.
    """

    by: str
    set: Mapping[str, str]
    path: tuple[str, ...]


@dataclass(frozen=True)
class CompilerCache:
    """The manifest cache.json: the compiler cache that compilers run behind.

    It is apart from deps.json, which the extensions read: none of them is built again because a
    cache came, went or was upgraded. `kind` is "" where there is none. `own` are the settings, by
    the cache's own names ("max_size"), that a person made in its configuration.
    """

    kind: Literal["ccache", "sccache", ""] = ""
    path: str = ""
    version: str = ""
    own: tuple[str, ...] = ()


@dataclass(frozen=True)
class DepsManifest:
    """The manifest deps.json: the build environment as it was made.

    `python` is the interpreter that torch is, or will be, installed for. `overlay` is a folder of
    build tools beside an existing interpreter (strategy existing), else None. `identity` changes
    when the environment was made anew, so that what was installed into the old one is installed
    again. `cc` and `cxx` are "" where there is none that could be taken and nothing is compiled;
    `msvc` is what they need around them on Windows.
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
        """Those of C and C++ that there are."""
        return tuple(one for one in dict.fromkeys((self.cc, self.cxx)) if one.path)


@dataclass(frozen=True)
class ToolchainStamps:
    """The manifest toolchain.json, which only deps itself reads: size and time of each compiler's
    file, and of a header of the Windows SDK, by path. One that was merely touched changes nothing
    else.
    """

    files: Mapping[str, str]


@dataclass(frozen=True)
class DepsJob:
    """What the action makes the environment from.

    `base` is the interpreter it is made of, or the one that has the torch when `existing`. `tools`
    and `toolkit_packages` are requirements; `toolkit_home` is that of a toolkit which is here
    already. `cache` is the setting build.cache, `cache_package` the requirement that brings a
    compiler cache where none is installed ("" where nothing is to be downloaded for it),
    `launchers` the compiler launchers that build.env names, by variable. `limits` are the compilers
    that the toolkit and the sources take; of them `gcc_max` is an input of the stage. `compiles`:
    whether any stage after this one needs a compiler. `locked` is what torchyard.lock holds for the
    environment, `locked_toolkit` for `toolkit_folder`: no inputs, for what is there may be that.
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
