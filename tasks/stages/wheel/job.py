"""What wheel is given and what it leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from tasks.digest import canonical, plain, sha256_text
from tasks.model import Artifact

Kind = Literal["wheel", "libtorch", "existing"]
# Who supplies a library: the wheel itself, the CUDA toolkit or NVIDIA's packages, another Python
# package, something left in the build folder or the source tree, the system, the driver
Origin = Literal["wheel", "toolkit", "environment", "build", "system", "driver"]


@dataclass(frozen=True)
class PrebuiltJob:
    """An official wheel: `requirement` from `index` ("" is the default one), into the environment
    of deps.
    """

    requirement: str
    index: str
    sha256: str | None
    cuda: str | None
    wheelhouse: PurePath
    landing: PurePath
    deps: PurePath
    log: PurePath
    wheel: PurePath


@dataclass(frozen=True)
class BuiltJob:
    """A wheel, or the C++ libraries, out of the build folder of compile.

    `local` is the local version without the commit ("cu130.sm120"), None for no local version, and
    `local_is_whole` says that a person chose it, so that no commit is added. `content` keeps the
    digest of what was last installed and imported, `libraries` what its libraries need, `linkages`
    what was read in them. `build` is the build folder of this profile.
    """

    release: str
    local: str | None
    local_is_whole: bool
    cuda: str | None
    wheelhouse: PurePath
    build: PurePath
    landing: PurePath
    prefix: PurePath
    content: PurePath
    libraries: PurePath
    linkages: PurePath
    deps: PurePath
    source: PurePath
    env: PurePath
    compiled: PurePath
    log: PurePath
    wheel: PurePath


@dataclass(frozen=True)
class ExistingJob:
    """A torch that is installed already; nothing is installed."""

    python: str
    folder: str
    version: str
    log: PurePath
    deps: PurePath
    wheel: PurePath


@dataclass(frozen=True)
class Wheel:
    """The manifest wheel.json: the torch that everything after is about.

    `release` is `version` without its local part, `folder` the installed package, `artifact` the
    wheel in the wheelhouse, `prefix` the install prefix of a C++-only build.
    """

    version: str
    release: str
    cuda: str | None
    folder: str
    python: str
    kind: Kind
    artifact: Artifact | None = None
    prefix: str | None = None


@dataclass(frozen=True)
class Surface:
    """The manifest surface.json: what an extension is compiled and linked against.

    `headers` and `libraries` are digests over the installed files, taken from the wheel's RECORD
    where there is one. `identity` is that of the environment: in a new one the extensions have to
    be installed again.
    """

    release: str
    cuda: str | None
    python_tag: str
    headers: str
    libraries: str
    identity: str

    @property
    def name(self) -> str:
        """Eight digits for everything but the environment: part of the names of wheels."""
        told = {**plain(self), "identity": ""}  # type: ignore[dict-item]
        return sha256_text(canonical(told))[:8]


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
class Linkages:
    """wheel-linkages.json: what was read in the libraries of the last wheel, by their digests in
    RECORD, None for one of another format. `reader` tells which reading it was.
    """

    reader: int
    libraries: Mapping[str, Linkage | None]


@dataclass(frozen=True)
class Linked:
    """What one library is linked with: library → who supplies it; and the absolute paths in it, of
    RPATH above all → whose they are.
    """

    needed: Mapping[str, Origin]
    paths: Mapping[str, Origin]


@dataclass(frozen=True)
class WheelLibraries:
    """wheel-libraries.json, for people: what the libraries of a wheel need and who has it here, and
    so what another machine has to have.
    """

    wheel: str
    libraries: Mapping[str, Linked]
