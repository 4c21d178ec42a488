"""The job and the manifest of an extension stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Literal

from tasks.core.model import Arch, Artifact, Json, LockedPackages, System
from tasks.core.resolution import Combination
from tasks.settings.compile_workers import DistributionSettings


@dataclass(frozen=True)
class ExtensionJob:
    """Build one extension or companion: its source or wheel, build settings and targets.

    `kind` git, path or sdist means that `location` is the URL, folder or requirement of the source.
    For `wheel`, `location` is a requirement from `index` ("" is the default one), and nothing is
    compiled. If `pinned` is set, it is the manifest of PyTorch's tree, which determines the
    version.

    `known` is the extension's name in extensions.yaml, "" if it is unknown before it is fetched;
    `combination` is what the facts there are checked against. `cuda` says if its libraries must
    contain device code. `isolated`: the packages of `requires` are built in isolation.

    `requires` are packages that the build environment needs first, `after` manifests of extensions
    that are installed before. `includes` are headers forced into every source, `nvcc` the options
    that nvcc gets last, `targets` the capabilities that every library with device code must run on,
    `label` CUDA and archs as in a wheel's name. `why` is the reason for a companion's strategy.
    `caching` does not change the result, and is therefore not an input of the stage.

    `jobs` is the maximum number of parallel compilers, None for a number by cores and memory; with
    `jobs_exact` it is used whatever memory there is. `own_jobs`: setup.py sets a number if it gets
    none. `compiler_mib` is the memory of one compiler, 0 if unknown. `pool` is the jobserver's
    folder, `runs` the file that each build appends a line to. `settings_entry` is for the
    provenance statement.

    From torchyard.lock: `commit` is the commit of `ref`, `locked_sha256` the digest of the sdist or
    wheel, `locked` and `locked_requires` the packages that the extension and its build require.
    They are not in the fingerprint, since the installed packages may already match.
    """

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
    pool: PurePath
    runs: PurePath
    work: PurePath
    wheelhouse: PurePath
    deps: PurePath
    environment: PurePath
    caching: PurePath
    abi_manifest: PurePath
    abi_folder: PurePath
    manifest: PurePath
    log: PurePath
    index: str = ""
    pinned: PurePath | None = None
    patches: tuple[PurePath, ...] = ()
    requires: tuple[str, ...] = ()
    after: tuple[PurePath, ...] = ()
    nvcc: tuple[str, ...] = ()
    jobs_exact: bool = False
    cuda: Literal["auto", "required", "none"] = "auto"
    known: str = ""
    combination: Combination | None = None
    own_jobs: bool = False
    compiler_mib: int = 0
    why: str = ""
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
        """Return git's clone, where the user may edit the source. Only kind `git` has one."""
        return self.work / "clone"

    @property
    def tree(self) -> PurePath:
        """Return the copy of the source that is built. It is created again for each build."""
        return self.work / "tree"

    @property
    def original(self) -> PurePath:
        """Return the folder where the user can fix a file: the copy if it was patched."""
        if self.patches:
            return self.tree
        return {"path": PurePath(self.location), "git": self.clone}.get(self.kind, self.tree)


@dataclass(frozen=True)
class BuiltExtension:
    """The manifest extensions/NAME.json.

    `libraries` are absolute paths of the installed shared libraries, `archs` the archs of each (by
    file name). `source` are the commit or digest that it was built from, and those of the patches.
    `surface` is the name of its ABI fingerprint, "" if nothing was built.
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
