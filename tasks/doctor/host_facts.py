"""Define the facts that doctor reads about a host: probes create them, checks read them.

`None` means "not inspected"; an empty value means "not found". Sizes are in MiB.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Literal

from tasks.core.deps_model import DepsJob
from tasks.core.model import Host
from tasks.core.project import Project
from tasks.knowledge.cpp_extension import CppExtension
from tasks.knowledge.gpus import NvidiaDriver
from tasks.settings.compile_workers import DistributionSettings

VARIABLES = (
    *("TORCH_CUDA_ARCH_LIST", "MAX_JOBS", "CC", "CXX", "CFLAGS", "CXXFLAGS"),
    *("NVCC_APPEND_FLAGS", "CMAKE_ARGS", "CUDAHOSTCXX"),
)


@dataclass(frozen=True)
class Tool:
    """A program, missing if `path` is "". `why` explains the choice or error, `todo` is a hint."""

    path: str = ""
    version: str = ""
    why: str = ""
    todo: str = ""


@dataclass(frozen=True)
class VisualStudio:
    """An installed Visual Studio. `tools` is the version of its default C++ toolset, if any."""

    name: str
    version: str
    folder: str
    tools: str = ""


@dataclass(frozen=True)
class Disk:
    """A disk that a build writes to. `kind` is the filesystem type.

    `holds` labels the folders on the disk ("build", "wheels"). `path` is the first of the folders.
    """

    holds: tuple[str, ...]
    path: str
    free_mib: int
    kind: str = ""

    @property
    def main_place(self) -> str:
        """The label of the first folder, which names the disk in messages."""
        return self.holds[0]


@dataclass(frozen=True)
class Memory:
    """The memory and the usable processors of the machine.

    `limit_mib` is the lowest memory limit for a build, such as that of a container. `available_mib`
    is the free part of this limit.
    """

    total_mib: int
    limit_mib: int
    available_mib: int
    swap_mib: int | None
    cores: int


@dataclass(frozen=True)
class UnsafePath:
    """A folder where other users can put programs that a build runs.

    `kind` is `folder` for a folder of the build, `PATH` for a folder on PATH, and `relative` for a
    PATH entry that depends on the current directory.
    """

    kind: Literal["folder", "PATH", "relative"]
    path: str


@dataclass(frozen=True)
class Leftover:
    """Another run, or a folder of unknown origin, that affects the build.

    `kind` is `running` for a live run, `killed` for a killed run whose `processes` may still run,
    and `foreign` for a build folder that torchyard did not create.
    """

    kind: Literal["running", "killed", "foreign"]
    where: str
    processes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShadowingTorch:
    """A torch that Python may import instead of the built torch; `how` is where Python finds it."""

    how: Literal["PYTHONPATH", "conda", "user site", "checkout"]
    path: str
    version: str = ""


@dataclass(frozen=True)
class InstalledExtension:
    """An installed package with an extension's name. `indexed` is True if it came from an index."""

    name: str
    version: str
    folder: str
    indexed: bool


@dataclass(frozen=True)
class BuildTorch:
    """The torch to build extensions for. `says` are the compiler versions that it accepts."""

    version: str = ""
    cuda: str | None = None
    says: CppExtension = field(default_factory=CppExtension)


@dataclass(frozen=True)
class MissingSubmodules:
    """Empty submodules (`folders`) of a source tree, which is a git clone if `cloned` is True."""

    extension: str
    source: PurePath
    tree: PurePath
    folders: tuple[PurePath, ...]
    cloned: bool


@dataclass(frozen=True)
class UnmergedCheckout:
    """A checkout with merge conflicts; `setting` is the key that sets the path."""

    setting: str
    message: str
    hint: str


@dataclass(frozen=True)
class RequiredUrl:
    """A URL that a build needs for `subject`. `answers` is True if its host accepted a connection.

    `usual` marks a default index, which an index in the user's uv or pip settings replaces.
    `instead_of` is the URL that a mirror replaced.
    """

    subject: str
    url: str
    answers: bool = False
    optional: bool = False
    usual: bool = False
    instead_of: str = ""


@dataclass(frozen=True)
class ProbeRequest:
    """The subjects that the probes inspect. Paths are absolute.

    `places` are the label and path of each folder that a build writes to. `build` is the build
    folder, `None` without a profile. `torch` is the folder of an existing torch. `begun` are files
    that exist only after a build has started. `into` is the setting install.into. `installed` is
    the manifest of an install. `sources` are the name and folder of each extension. `own` are the
    name, folder and built subfolder of each extension in a user's folder. `checkouts` are the
    settings key and path of each user's folder with PyTorch or an extension.
    """

    project: Project
    host: Host
    places: tuple[tuple[str, PurePath], ...]
    build: PurePath | None = None
    venv: PurePath | None = None
    torch: PurePath | None = None
    begun: tuple[PurePath, ...] = ()
    into: str = ""
    installed: PurePath | None = None
    deps: DepsJob | None = None
    toolkit_home: str = ""
    urls: tuple[RequiredUrl, ...] = ()
    sources: tuple[tuple[str, PurePath], ...] = ()
    own: tuple[tuple[str, PurePath, PurePath], ...] = ()
    checkouts: tuple[tuple[str, PurePath], ...] = ()
    workers: DistributionSettings = field(default_factory=DistributionSettings)


@dataclass(frozen=True)
class HostFacts:
    """The facts about a host that the checks read.

    `systems` are names that select a package manager (`ubuntu`, `debian`). `begun` is True if the
    build already uses most of its disk space. `python_bits` is 32 or 64, for the target
    interpreter. `glibc` is "" on a system without glibc. `cmake` and `ninja` may be on PATH, while
    `setuptools` must be in the build environment. `without_cuda` are the extensions without CUDA
    sources. `reach` has the required URLs. `hands_on` is the program that sends compilations to the
    `workers`. `proxies` maps each proxy variable to HOST:PORT, or to "" for values without a host.
    `today` is the date, "2026-11-26".
    """

    host: Host
    root: PurePath
    os_release: str | None = None
    systems: tuple[str, ...] = ()
    glibc: str | None = None
    wsl: bool = False
    python_bits: int | None = None
    uv: Tool | None = None
    git: Tool | None = None
    cxx: Tool | None = None
    visual_studio: tuple[VisualStudio, ...] | None = None
    windows_sdk: tuple[str, ...] | None = None
    nvcc: Tool | None = None
    torch: BuildTorch | None = None
    without_cuda: frozenset[str] | None = None
    unfetched: tuple[MissingSubmodules, ...] | None = None
    unmerged: tuple[UnmergedCheckout, ...] | None = None
    nvidia: NvidiaDriver | None = None
    cmake: Tool | None = None
    ninja: Tool | None = None
    setuptools: Tool | None = None
    disks: tuple[Disk, ...] | None = None
    begun: bool = False
    memory: Memory | None = None
    long_paths: bool | None = None
    encoding: str | None = None
    proxies: Mapping[str, str] | None = None
    reach: tuple[RequiredUrl, ...] | None = None
    hands_on: Tool | None = None
    workers: tuple[RequiredUrl, ...] | None = None
    leftovers: tuple[Leftover, ...] | None = None
    exposed: tuple[UnsafePath, ...] | None = None
    shadows: tuple[ShadowingTorch, ...] | None = None
    installed: tuple[InstalledExtension, ...] | None = None
    environ: Mapping[str, str] | None = None
    today: str = ""
