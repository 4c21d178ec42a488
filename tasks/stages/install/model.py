"""What install is given and what it leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath


@dataclass(frozen=True)
class InstallJob:
    """Into the environment of the interpreter `into`, a path (from `root`, the checkout) or a name
    on PATH.

    `index` is where torch's dependencies are found beside the default index. `builds` is the folder
    of all profiles, since one environment is for one of them; `replaced` keeps what gives way.
    `sizes` are MiB of packages of an index once they are unpacked, by the beginning of a name.
    `deps`, `environment`, `wheel` and `extensions` (by name) are manifests to read; with `partial`
    that of an extension whose build failed may be missing.
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
    """One that now lies there: `record` is the path of its RECORD, `digest` the sha256 of that, and
    `wheel` the sha256 of its wheel in the wheelhouse, "" for one that came from an index.
    """

    name: str
    version: str
    record: str
    digest: str
    wheel: str = ""


@dataclass(frozen=True)
class Installation:
    """The manifest install.json: `python` is the interpreter, `prefix` the folder of its
    environment.
    """

    python: str
    prefix: str
    distributions: tuple[DistributionRecord, ...]
