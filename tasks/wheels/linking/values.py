"""What a library exports and needs, and who has that: read of wheels and of what is installed,
and of no use to a plan. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

# Who supplies a library: the wheel itself, the CUDA toolkit or NVIDIA's packages, another Python
# package, something left in the build folder or the source tree, the system, the driver
LibraryOrigin = Literal["wheel", "toolkit", "environment", "build", "system", "driver"]


@dataclass(frozen=True)
class ExportedSymbols:
    """What a library exports, as a digest; `cxx11_abi` as in `Surface`, by its names."""

    digest: str
    cxx11_abi: bool | None


@dataclass(frozen=True)
class ExportedSymbolsCache:
    """wheel-symbols.json: what was read in the libraries of the last torch, by their digests in
    RECORD, or by size and time where there is none. `reader` tells which reading it was.
    """

    reader: int
    libraries: Mapping[str, ExportedSymbols]


@dataclass(frozen=True)
class Linkage:
    """The dynamic section of a library, or of a program.

    `machine` is what it is made for ("EM_X86_64"), `soname` "" where it has none. `rpath` and
    `runpath` are folders as they are written, `$ORIGIN` and all.
    """

    machine: str
    soname: str = ""
    needed: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()


@dataclass(frozen=True)
class SystemDlls:
    """Of names that a wheel needs, in small letters: which come with every Windows, which with
    Python, and which with the Visual C++ redistributable.
    """

    windows: frozenset[str] = frozenset()
    python: frozenset[str] = frozenset()
    redistributable: frozenset[str] = frozenset()


@dataclass(frozen=True)
class LinkageCache:
    """wheel-linkages.json: what was read in the libraries of the last wheel, by their digests in
    RECORD, None for one of another format. `reader` tells which reading it was.
    """

    reader: int
    libraries: Mapping[str, Linkage | None]


@dataclass(frozen=True)
class PatchedLibraries:
    """wheel-patched.json: the libraries of the last wheel whose RPATH was set. A digest of what the
    linker left and of the RPATH → the sha256 of what became of it, as RECORD writes it.
    """

    libraries: Mapping[str, str]


@dataclass(frozen=True)
class LinkedLibrary:
    """What one library is linked with: library → who supplies it; and the absolute paths in it, of
    RPATH above all → whose they are.
    """

    needed: Mapping[str, LibraryOrigin]
    paths: Mapping[str, LibraryOrigin]


@dataclass(frozen=True)
class WheelLibraries:
    """wheel-libraries.json, for people: what the libraries of a wheel need and who has it here, and
    so what another machine has to have.
    """

    wheel: str
    libraries: Mapping[str, LinkedLibrary]
