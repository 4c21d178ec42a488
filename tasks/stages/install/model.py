"""The job and the manifest of the install stage."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath


@dataclass(frozen=True)
class InstallJob:
    """A job that installs into the environment of the interpreter `into`.

    `into` is a program name or a path relative to `root`, the checkout. `index` is an additional
    index for torch's dependencies. `builds` has the builds of all profiles, `replaced` the backups.
    `sizes` are unpacked sizes in MiB by prefix of the package name. `deps`, `environment`, `wheel`
    and `extensions` are manifests. With `partial`, those of failed extensions may be missing.
    """

    into: str
    profile: str
    root: PurePath
    index: str
    builds: PurePath
    replaced: PurePath
    wheelhouse: PurePath
    sizes: Mapping[str, int]
    deps: PurePath
    environment: PurePath
    wheel: PurePath
    extensions: Mapping[str, PurePath]
    manifest: PurePath
    log: PurePath
    partial: bool = False


@dataclass(frozen=True)
class DistributionRecord:
    """An installed distribution. `digest` is the sha256 of its RECORD at the path `record`.

    `wheel` is the sha256 of the wheel in the wheelhouse, "" for a package from an index.
    """

    name: str
    version: str
    record: str
    digest: str
    wheel: str = ""


@dataclass(frozen=True)
class Installation:
    """The manifest install.json. `prefix` is the environment of the interpreter `python`."""

    python: str
    prefix: str
    distributions: tuple[DistributionRecord, ...]
