"""What wheel is given and what it leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Literal

from tasks.core.canonical_json import compute_text_sha256, format_canonical_json
from tasks.core.model import Arch, Artifact, Json, LockedPackages, System

WheelKind = Literal["wheel", "libtorch", "existing"]

# The library with torch's kernels in torch/lib, shared and static
KERNELS: Mapping[System, tuple[str, str]] = {
    "linux": ("libtorch_cuda.so", "libtorch_cuda.a"),
    "macos": ("libtorch_cuda.so", "libtorch_cuda.a"),
    "windows": ("torch_cuda.dll", "torch_cuda.lib"),
}


@dataclass(frozen=True)
class AbiReadOptions:
    """How the surface of the installed torch is read.

    `cxx_standard` is what cpp_extension of this release passes by the facts, None where they do not
    know it. `symbols` keeps what was read in each library, `surfaces` is the folder of what the
    last surfaces consist of.
    """

    cxx_standard: int | None
    symbols: PurePath
    abi_folder: PurePath


@dataclass(frozen=True)
class PrebuiltJob:
    """An official wheel: `requirement` from `index` ("" is the default one), into the environment
    of deps. It must hold code for all `targets`, by the facts in `knowledge`. `locked`
    are the packages that torchyard.lock holds for it, `locked_sha256` the wheel's digest there: no
    inputs, for what is there may be that.
    """

    requirement: str
    index: str
    sha256: str | None
    cuda: str | None
    wheelhouse: PurePath
    landing: PurePath
    reading: AbiReadOptions
    deps: PurePath
    log: PurePath
    wheel: PurePath
    system: System
    knowledge: PurePath
    targets: tuple[Arch, ...] = ()
    locked: LockedPackages = field(default_factory=dict)
    locked_sha256: str = ""


@dataclass(frozen=True)
class BuiltJob:
    """A wheel, or the C++ libraries, out of the build folder of compile.

    `local` is the local version without the commit ("cu130.sm120"), None for no local version, and
    `local_is_whole` says that a person chose it, so that no commit is added. `content` keeps the
    digest of what was last installed and imported, `libraries` what its libraries need, `linkages`
    what was read in them. `build` is the build folder of this profile. `asked` are the settings,
    `targets` the capabilities that the statement beside the wheel tells of. `locked` is as above.
    `by_packages`: CUDA's libraries are to come from NVIDIA's packages; then `as_made` keeps what
    was read in the libraries before their RPATH was set, and `patched` what became of them.
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
    original_linkages: PurePath
    patched: PurePath
    reading: AbiReadOptions
    deps: PurePath
    source: PurePath
    env: PurePath
    compiled: PurePath
    log: PurePath
    wheel: PurePath
    settings: Mapping[str, Json] = field(default_factory=dict)
    targets: tuple[Arch, ...] = ()
    locked: LockedPackages = field(default_factory=dict)
    by_packages: bool = False


@dataclass(frozen=True)
class ExistingJob:
    """A torch that is installed already; nothing is installed."""

    python: str
    folder: str
    version: str
    reading: AbiReadOptions
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
    kind: WheelKind
    artifact: Artifact | None = None
    prefix: str | None = None


@dataclass(frozen=True)
class AbiFingerprint:
    """The manifest surface.json: what an extension is compiled and linked against.

    `python_tag` is the Python ABI. `headers` is a digest over headers, CMake files and torch's
    cpp_extension, `symbols` over what the libraries export that an extension is linked with: a
    torch with other bodies of functions has the same. `cxx11_abi` is _GLIBCXX_USE_CXX11_ABI, None
    where there is no such choice, `cxx_standard` what cpp_extension passes (20), None where nobody
    knows. `identity` is that of the environment: in a new one the extensions have to be installed
    again.
    """

    release: str
    cuda: str | None
    python_tag: str
    headers: str
    symbols: str
    cxx11_abi: bool | None
    cxx_standard: int | None
    identity: str

    @property
    def name(self) -> str:
        """Eight hexadecimal digits of all that makes one extension differ from another."""
        return compute_text_sha256(format_canonical_json(replace(self, identity="")))[:8]


@dataclass(frozen=True)
class AbiDetails:
    """surfaces/NAME.json.gz, for people: what a surface consists of. `headers` maps files to their
    digests, `symbols` libraries to the names that they export.
    """

    surface: AbiFingerprint
    headers: Mapping[str, str]
    symbols: Mapping[str, tuple[str, ...]]
