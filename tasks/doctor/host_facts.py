"""Define what doctor knows about a host, as frozen values.

Probes fill these values and checks read them, so that tests can write down a host. None means "not
inspected", an empty value "inspected, and not found". Sizes are in MiB.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Literal

from tasks.core.deps_model import CompilerLimits
from tasks.core.model import Host
from tasks.knowledge.cpp_extension import CppExtension
from tasks.knowledge.gpus import NvidiaDriver
from tasks.settings.compile_workers import DistributionSettings

VARIABLES = (
    *("TORCH_CUDA_ARCH_LIST", "MAX_JOBS", "CC", "CXX", "CFLAGS", "CXXFLAGS"),
    *("NVCC_APPEND_FLAGS", "CMAKE_ARGS", "CUDAHOSTCXX"),
)


@dataclass(frozen=True)
class Tool:
    """A program, path "" if not found; `why` and `todo` are message and hint of the search."""

    path: str = ""
    version: str = ""
    why: str = ""
    todo: str = ""


@dataclass(frozen=True)
class VisualStudio:
    """An installation ("17.14.13"); `tools` is the version of its newest C++ toolset, or ""."""

    name: str
    version: str
    folder: str
    tools: str = ""


@dataclass(frozen=True)
class Disk:
    """The disk of the places in `holds`, the first at `path`; `kind` is its filesystem's type."""

    holds: tuple[str, ...]
    path: str
    free_mib: int
    kind: str = ""

    @property
    def main_place(self) -> str:
        """The place that names the disk."""
        return self.holds[0]


@dataclass(frozen=True)
class Memory:
    """The memory and the usable processors of the machine.

    `limit_mib` is the lowest limit for a build (a container has one) and `available_mib` is what is
    left of that. `swap_mib` may be unknown: None.
    """

    total_mib: int
    limit_mib: int
    available_mib: int
    swap_mib: int | None
    cores: int


@dataclass(frozen=True)
class Connectivity:
    """A URL without secrets, whether its host answers, and the URL that it mirrors."""

    subject: str
    url: str
    answers: bool
    optional: bool = False
    instead_of: str = ""


@dataclass(frozen=True)
class UnsafePath:
    """A place where other users can put programs that a build runs.

    `kind` is `folder` for a folder of the build that everyone may write to, `PATH` for such a
    folder on PATH, and `relative` for an entry of PATH that depends on the current directory.
    """

    kind: Literal["folder", "PATH", "relative"]
    path: str


@dataclass(frozen=True)
class Leftover:
    """The remains of an earlier build.

    The run is `running` or was `killed`, and `processes` are its programs that still run; a
    `foreign` folder, which torchyard did not create, blocks the build.
    """

    kind: Literal["running", "killed", "foreign"]
    where: str
    processes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShadowingTorch:
    """Another torch that is found before the torch of the build, or in addition to it."""

    how: Literal["PYTHONPATH", "conda", "user site", "checkout"]
    path: str
    version: str = ""


@dataclass(frozen=True)
class Proxy:
    """A variable that names a proxy, and the address without its password."""

    variable: str
    address: str


@dataclass(frozen=True)
class InstalledExtension:
    """A distribution installed next to torch; `indexed` if it came from a package index."""

    name: str
    version: str
    folder: str
    indexed: bool


@dataclass(frozen=True)
class BuildTorch:
    """The torch that extensions are built against (version "" if missing), and its checks."""

    version: str = ""
    cuda: str | None = None
    says: CppExtension = field(default_factory=CppExtension)


@dataclass(frozen=True)
class MissingSubmodules:
    """Empty submodules of `tree`, which git can fetch if `cloned`; `source` is the extension's."""

    extension: str
    source: PurePath
    tree: PurePath
    folders: tuple[PurePath, ...]
    cloned: bool


@dataclass(frozen=True)
class UnmergedCheckout:
    """A checkout with merge conflicts, which `setting` names; the `hint` has git commands."""

    setting: str
    message: str
    hint: str


@dataclass(frozen=True)
class RequiredUrl:
    """A URL that a build needs; pip's settings replace a `usual` index."""

    subject: str
    url: str
    optional: bool = False
    usual: bool = False
    instead_of: str = ""


@dataclass(frozen=True)
class ProbeRequest:
    """What to inspect.

    Paths are absolute. Without a profile, `build` is not set. `torch` is the folder of an existing
    torch, None if it will be installed into `venv`. `sources` are folders of extensions, which may
    not be fetched yet; `own` are those of the user, with the folder that is built in each;
    `checkouts` are the settings and folders of the user's sources. `into` is install.into as
    written, and `installed` the manifest that exists after an installation.
    """

    root: PurePath
    host: Host
    places: tuple[tuple[str, PurePath], ...]
    build: PurePath | None = None
    venv: PurePath | None = None
    torch: PurePath | None = None
    begun: tuple[PurePath, ...] = ()
    into: str = ""
    installed: PurePath | None = None
    cc: str | None = None
    cxx: str | None = None
    limits: CompilerLimits = field(default_factory=CompilerLimits)
    toolkit_home: str = ""
    urls: tuple[RequiredUrl, ...] = ()
    distributions: tuple[str, ...] = ()
    sources: tuple[tuple[str, PurePath], ...] = ()
    own: tuple[tuple[str, PurePath, PurePath], ...] = ()
    checkouts: tuple[tuple[str, PurePath], ...] = ()
    workers: DistributionSettings = field(default_factory=DistributionSettings)


@dataclass(frozen=True)
class HostFacts:
    """The facts about a host that the checks read.

    `systems` are the names that select a package manager (`ubuntu`, `debian`). `begun`: part of
    this profile is already built, so that its disk space is used. `python_bits` is that of the
    target interpreter; `glibc` is "" on systems without it (musl, Windows). `cmake`, `ninja` and
    `setuptools` are those of the build environment if it exists, else those on PATH (`setuptools`
    is then missing). `without_cuda` are extensions whose fetched sources have no CUDA files.
    `hands_on` is the program that sends compilations to the `workers`. `environ` are the variables
    that checks need, by name.
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
    cc: Tool | None = None
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
    proxies: tuple[Proxy, ...] | None = None
    reach: tuple[Connectivity, ...] | None = None
    hands_on: Tool | None = None
    workers: tuple[Connectivity, ...] | None = None
    leftovers: tuple[Leftover, ...] | None = None
    exposed: tuple[UnsafePath, ...] | None = None
    shadows: tuple[ShadowingTorch, ...] | None = None
    installed: tuple[InstalledExtension, ...] | None = None
    environ: tuple[tuple[str, str], ...] | None = None
