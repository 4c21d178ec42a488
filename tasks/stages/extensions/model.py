"""The job and the manifest of an `extensions` stage."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Literal

from tasks.core.model import Arch, Artifact, Json, Layout, LockedPackages, System
from tasks.core.resolution import Combination
from tasks.settings.compile_workers import DistributionSettings


@dataclass(frozen=True)
class ExtensionJob:
    """The job of one extension or companion package: source or wheel, build settings and targets.

    `location` is the URL, folder or requirement of the source for the kinds git, path and sdist.
    For kind wheel, `location` is a requirement from `index` ("" is the default index), and nothing
    is compiled. `pinned` is the manifest of the PyTorch tree that determines the version of the
    wheel, None if `location` determines the version.

    `known` is the extension's name in extensions.yaml, "" if unknown before the source is fetched.
    `combination` has the versions that select facts in that file. `cuda` says whether the libraries
    must contain device code. `requires` are packages that are installed before the build, each
    built in isolation if `isolated` is True. The headers in `includes` are included in every source
    file. `nvcc` has additional options of nvcc. Every library with device code must run on all
    `targets`. `label` has CUDA and the archs, as in the name of a wheel.

    `jobs` is the maximum number of parallel compilers, None to compute it from cores and memory.
    `jobs_exact` disables the memory limit. `own_jobs` is True if setup.py chooses a job count by
    default. `compiler_mib` is the memory of one compiler, 0 if unknown.

    From torchyard.lock: `commit` is the commit of `ref`, `locked_sha256` the digest of the sdist or
    wheel, `locked` and `locked_requires` the packages that the extension and its build require.
    The fingerprint omits these fields, because the installed packages may already match.
    """

    layout: Layout
    name: str
    kind: Literal["git", "path", "sdist", "wheel"]
    location: str
    ref: str
    submodules: bool
    sha256: str | None
    subdirectory: str
    mirrors: Mapping[str, str]
    imports: tuple[str, ...]
    env: Mapping[str, str]
    includes: tuple[str, ...]
    optional: bool
    system: System
    targets: tuple[Arch, ...]
    label: str
    jobs: int | None
    knowledge: PurePath
    runs: PurePath
    work: PurePath
    manifest: PurePath
    log: PurePath
    index: str = ""
    pinned: PurePath | None = None
    patches: tuple[PurePath, ...] = ()
    requires: tuple[str, ...] = ()
    nvcc: tuple[str, ...] = ()
    jobs_exact: bool = False
    cuda: Literal["auto", "required", "none"] = "auto"
    known: str = ""
    combination: Combination | None = None
    own_jobs: bool = False
    compiler_mib: int = 0
    isolated: bool = True
    settings_entry: Mapping[str, Json] = field(default_factory=dict)
    cache_remote: str = ""
    workers: DistributionSettings = field(default_factory=DistributionSettings)
    commit: str = ""
    locked_sha256: str = ""
    locked: LockedPackages = field(default_factory=dict)
    locked_requires: LockedPackages = field(default_factory=dict)

    @property
    def clone(self) -> PurePath:
        """Return the folder of the git clone (kind git). The user may edit the source in it."""
        return self.work / "clone"

    @property
    def tree(self) -> PurePath:
        """Return the folder with a copy of the source, which is created again for each build."""
        return self.work / "tree"

    @property
    def original(self) -> PurePath:
        """Return the source folder for messages: the one that a user edits, else `tree`."""
        if self.patches:
            return self.tree
        return {"path": PurePath(self.location), "git": self.clone}.get(self.kind, self.tree)


@dataclass(frozen=True)
class BuiltExtension:
    """The manifest extensions/NAME.json.

    `libraries` are the absolute paths of the installed shared libraries. `archs` maps the file
    names of libraries to archs. `source` has the commit or digest of the source and of the patches.
    `status` is "unreachable" if the source could not be fetched, so that nothing was built.
    `surface` is the name of torch's ABI fingerprint at the build ("" if not built). `needs_code`
    is True if the libraries must contain device code.
    """

    name: str
    status: Literal["built", "unreachable"]
    source: Mapping[str, str]
    artifact: Artifact | None = None
    libraries: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    archs: Mapping[str, tuple[str, ...]] | None = None
    surface: str = ""
    needs_code: bool = False
