"""The jobs and the manifests of the `wheel` stage."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Literal

from tasks.core.canonical_json import compute_text_sha256, format_canonical_json
from tasks.core.model import Arch, Artifact, Json, Layout, LockedPackages, System

WheelKind = Literal["wheel", "libtorch", "existing"]

# The library with torch's kernels in torch/lib, shared and static
KERNELS: Mapping[System, tuple[str, str]] = {
    "linux": ("libtorch_cuda.so", "libtorch_cuda.a"),
    "macos": ("libtorch_cuda.so", "libtorch_cuda.a"),
    "windows": ("torch_cuda.dll", "torch_cuda.lib"),
}


@dataclass(frozen=True)
class AbiReadOptions:
    """The options for reading the ABI fingerprint of the installed torch.

    `cxx_standard` is used if torch's own files name no C++ standard for extensions. `symbols` is
    the cache file of exported symbols, `abi_folder` is the store of recent fingerprints.
    """

    cxx_standard: int | None
    symbols: PurePath
    abi_folder: PurePath


@dataclass(frozen=True, kw_only=True)
class ExistingJob:
    """The job that uses an already installed torch and installs nothing."""

    python: str
    folder: str
    version: str
    reading: AbiReadOptions
    deps: PurePath
    log: PurePath
    wheel: PurePath


@dataclass(frozen=True, kw_only=True)
class TorchInstallJob:
    """The inputs of the jobs that install torch into the environment of the `deps` stage.

    `locked` are the packages in torchyard.lock. Each run compares them with the installed packages,
    so the fingerprint omits them. `targets` are the GPUs that the wheel must support.
    """

    layout: Layout
    cuda: str | None
    wheelhouse: PurePath
    landing: PurePath
    reading: AbiReadOptions
    deps: PurePath
    log: PurePath
    wheel: PurePath
    targets: tuple[Arch, ...] = ()
    locked: LockedPackages = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PrebuiltJob(TorchInstallJob):
    """The job that installs an official wheel. `index` is a URL, or "" for the default index."""

    requirement: str
    index: str
    sha256: str | None
    system: System
    locked_sha256: str = ""


@dataclass(frozen=True, kw_only=True)
class BuiltJob(TorchInstallJob):
    """The job that makes a wheel, or the C++ libraries, from the output of the `compile` stage.

    `local` is the local version, such as "cu130.sm120", or `None`; the commit is appended to it
    unless `local_is_whole`. `content` is the record of the last installed wheel. `settings` are for
    the provenance statement. With `by_packages`, NVIDIA's packages provide the CUDA libraries.
    """

    release: str
    local: str | None
    local_is_whole: bool
    content: PurePath
    libraries: PurePath
    source: PurePath
    env: PurePath
    compiled: PurePath
    settings: Mapping[str, Json] = field(default_factory=dict)
    by_packages: bool = False


@dataclass(frozen=True)
class Wheel:
    """The manifest wheel.json: the torch that all later stages use.

    `release` is `version` without its local part. `folder` is the installed package. `artifact` is
    the file in the wheelhouse, if any. `prefix` is the install prefix of a C++-only build.
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

    `headers` is a digest of headers, CMake files and torch's cpp_extension. `symbols` is a digest
    of the exported symbols. `cxx11_abi` is False for libstdc++'s older ABI, `None` if unknown.
    `identity` is unique to the environment.
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
        """The name: eight hex digits of a digest of all fields except `identity`."""
        return compute_text_sha256(format_canonical_json(replace(self, identity="")))[:8]


@dataclass(frozen=True)
class AbiDetails:
    """The content of surfaces/NAME.json.gz: header digests by file, exported names by library."""

    surface: AbiFingerprint
    headers: Mapping[str, str]
    symbols: Mapping[str, tuple[str, ...]]
