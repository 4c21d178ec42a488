"""What an extension's stage is given and what it leaves."""

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
    """One extension or companion: where its source or wheel is, how it is built, and what its
    machine code must be for.

    `kind` is git, path or sdist and `location` the URL, folder or requirement of what is built; a
    `wheel` is the requirement `location` from `index` ("" is the default one), fetched and
    installed as it is: `sources.fetch` leaves it, and nothing is compiled. Where `pinned` is set,
    the manifest of PyTorch's tree, `location` is a bare name and that tree says which version.

    `known` is its name in extensions.yaml, "" if it is unknown before it is fetched; `met` is the
    combination that the facts there are checked against. `cuda` says whether its libraries must
    hold device code; `auto` decides by its source.

    `isolated`: what `requires` names is built as pip does it, apart from torch.

    `patches` are applied in order to the copied tree. `requires` are packages that must be in the
    build environment first, with the installed torch and the toolkit's pins as constraints; `after`
    are manifests of others that are installed before. `includes` are headers forced into every
    source, `nvcc` options that nvcc gets last, `targets` the capabilities that every library with
    device code must run on, `label` CUDA and archs as they stand in a wheel's name; `why` says why
    a companion is had in this way. `caching` is a manifest that changes nothing of what comes out,
    and so is none of the stage's reads; `surfaces` is the folder of what the last surfaces consist
    of; `cache_remote` the URL of the compiler cache that machines share, `workers` the machines
    that compile for this one.

    `jobs` is how many compilers run at once at most, None by cores and memory; with `jobs_exact` so
    many, whatever memory there is. `own_jobs`: its setup.py puts a number where it gets none;
    `compiler_mib` is what one compiler takes, 0 where nobody knows. `pool` is the folder of the
    jobs that all builds of the checkout share, `runs` the file that each build adds a line to,
    `knowledge` the folder of facts. `asked` is its entry in the settings, for the statement beside
    the wheel.

    Of torchyard.lock: `commit` is what `ref` stood for, `locked_sha256` the sdist's or wheel's,
    `locked` and `locked_requires` the packages that it and its build ask for. They are no inputs,
    for what is there may be that.
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
        """Where git keeps it, and what a person edits of it; none but a `git` one has it."""
        return self.work / "clone"

    @property
    def tree(self) -> PurePath:
        """The copy that is built in, made anew each time."""
        return self.work / "tree"

    @property
    def original(self) -> PurePath:
        """Where a file of the copy is to be mended: where it was copied from. The copy itself where
        a patch may have moved its lines, or it came out of an archive.
        """
        if self.patches:
            return self.tree
        return {"path": PurePath(self.location), "git": self.clone}.get(self.kind, self.tree)


@dataclass(frozen=True)
class BuiltExtension:
    """The manifest extensions/NAME.json.

    `libraries` are absolute paths of the installed shared libraries, `archs` what each holds (by
    file name), `source` what it was made of: commit, digest of local files, or of the sdist or
    wheel; with `patches`, their digests.
    `surface` is the name of torch's surface that it was built for, "" where nothing was.
    `needs_code`: at least one library must hold device code.
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
