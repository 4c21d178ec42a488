"""What doctor saw around a build: frozen values, so that a situation can be written down and
judged. Whoever fills them looks; whoever judges them looks at nothing.

None is "not looked at", an empty value is "looked for, and not there". Sizes are in MiB.
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
    """A program: absolute path and version, path "" where it is not there. `why` and `todo` are
    what the search for it told.
    """

    path: str = ""
    version: str = ""
    why: str = ""
    todo: str = ""


@dataclass(frozen=True)
class VisualStudio:
    """An installation that vswhere knows. `version` is its own, "17.14.13"; `tools` that of its
    newest C++ toolset, "14.44.35207", "" where it has none.
    """

    name: str
    version: str
    folder: str
    tools: str = ""


@dataclass(frozen=True)
class Disk:
    """The disk under the places that it `holds`, the first of which is at `path`; `kind` is its
    filesystem's type.
    """

    holds: tuple[str, ...]
    path: str
    free_mib: int
    kind: str = ""

    @property
    def main_place(self) -> str:
        """The place that it is called by."""
        return self.holds[0]


@dataclass(frozen=True)
class Memory:
    """The machine's memory, the least limit that holds for a build (a container has one of its
    own), what is left of it, swap (None where the system does not tell), and the processors that
    may be used.
    """

    total_mib: int
    limit_mib: int
    available_mib: int
    swap_mib: int | None
    cores: int


@dataclass(frozen=True)
class Connectivity:
    """A host of a URL without its secrets, and whether it took a connection; `instead_of` is the
    URL that it is a mirror of.
    """

    subject: str
    url: str
    answers: bool
    optional: bool = False
    instead_of: str = ""


@dataclass(frozen=True)
class UnsafePath:
    """Where somebody else can put something that a build runs. `kind`: a `folder` of the build that
    everyone may write to, such a one on `PATH`, or an entry of PATH that is `relative` to wherever
    a command is run.
    """

    kind: Literal["folder", "PATH", "relative"]
    path: str


@dataclass(frozen=True)
class Leftover:
    """What an earlier build left: `run` is at work or was killed, `processes` are its programs
    still at work; a `folder` is in the way and is not ours.
    """

    kind: Literal["at work", "killed", "not ours"]
    where: str
    processes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShadowingTorch:
    """Another torch that is found before, or beside, the one of the build."""

    how: Literal["PYTHONPATH", "conda", "user site", "checkout"]
    path: str
    version: str = ""


@dataclass(frozen=True)
class Proxy:
    """A variable that names a proxy, and the proxy without its password."""

    variable: str
    address: str


@dataclass(frozen=True)
class InstalledExtension:
    """A distribution beside the torch; `indexed` where it came from a package index."""

    name: str
    version: str
    folder: str
    indexed: bool


@dataclass(frozen=True)
class BuildTorch:
    """The torch that extensions are built against, `version` "" where it is not there yet, and what
    its cpp_extension says of compilers.
    """

    version: str = ""
    cuda: str | None = None
    says: CppExtension = field(default_factory=CppExtension)


@dataclass(frozen=True)
class MissingSubmodules:
    """Submodules of `tree` with nothing in their `folders`; `source` is what is built of an
    extension. `cloned` where git can fetch them there. Paths are absolute.
    """

    extension: str
    source: PurePath
    tree: PurePath
    folders: tuple[PurePath, ...]
    cloned: bool


@dataclass(frozen=True)
class UnmergedCheckout:
    """A checkout of the user with merge conflicts: the `setting` that names it, the `message`, and
    a `hint` with git commands.
    """

    setting: str
    message: str
    hint: str


@dataclass(frozen=True)
class RequiredUrl:
    """A URL that a build asks something of; `usual` is an index that pip's settings replace,
    `instead_of` what it is a mirror of.
    """

    subject: str
    url: str
    optional: bool = False
    usual: bool = False
    instead_of: str = ""


@dataclass(frozen=True)
class ProbeRequest:
    """Where to look. Paths are absolute; `build` is "" where no profile says it. `torch` is the
    folder of one that is there already, None where it comes into `venv`. `sources` are folders of
    extensions, which may have yet to be fetched, `own` those of a person, with what is built in
    each, `checkouts` the settings and folders of the user's own sources. `into` is install.into as
    written, `installed` the manifest that says that all is there.
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
    """Everything that a check may need to know.

    `systems` are the names by which package managers are told apart (`ubuntu`, `debian`). `begun`:
    something of this profile is built already, so that its room on the disk is taken.
    `python_bits` is of the interpreter that is built for, `glibc` "" where there is none (musl,
    Windows). `cmake`, `ninja` and `setuptools` are those of the build environment where there is
    one, else those on PATH (`setuptools` then is not there). `without_cuda` are extensions whose
    sources are here and have none for nvcc. `hands_on` is the program that hands compilations to
    the `workers`. `environ` are the variables that checks ask for, by name.
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

    @property
    def variables(self) -> dict[str, str]:
        """`environ` by name; nothing where nobody looked."""
        return dict(self.environ or ())
