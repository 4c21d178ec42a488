"""The build inputs of a wheel, from which its SBOM and its provenance statement are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from tasks.core.errors import is_secret_name, redact_secrets
from tasks.core.model import Json

EARLIEST_TIMESTAMP = 315_532_800  # 1980-01-01 UTC: a zip archive cannot store an earlier time


@dataclass(frozen=True)
class SourceInfo:
    """A source tree.

    `url` is "" for a local directory. A checkout has a `commit`, any other source a `digest`
    (sha256). `edits` is a digest of the local changes, "" for a clean tree. `submodules` maps paths
    to commits, `patches` are the sha256 of the applied patches.
    """

    url: str = ""
    commit: str = ""
    digest: str = ""
    edits: str = ""
    submodules: Mapping[str, str] = field(default_factory=dict)
    patches: tuple[str, ...] = ()


@dataclass(frozen=True)
class BuildTool:
    """A compiler; `digest` is the beginning of the sha256 of its file, "" if unknown."""

    name: str
    version: str
    digest: str = ""


def describe_tool(path: str, version: str, digest: str) -> BuildTool:
    """Return a tool with the file name of `path`, without its directory."""
    return BuildTool(PurePath(path).name, version, digest)


@dataclass(frozen=True)
class BuildInputs:
    """A wheel by `name` and `version`, with its build inputs.

    `epoch` is the time of the source, in seconds since 1970. `cuda` is the full version of the
    toolkit and its nvcc, "" without CUDA. `packages` are the exact requirements that provided the
    toolkit. `torch` and `surface` are the version and the ABI fingerprint of the torch that an
    extension was built against, "" for torch itself.
    """

    name: str
    version: str
    tree: SourceInfo
    epoch: int
    compilers: tuple[BuildTool, ...]
    cuda: str = ""
    packages: tuple[str, ...] = ()
    torch: str = ""
    surface: str = ""


@dataclass(frozen=True)
class Invocation:
    """The settings, the resolution and the environment of a build.

    `kind` is "torch" or "extension". `settings` and the `resolution` derived from them are redacted
    already. `installed` maps the packages of the build environment to their versions. `began` and
    `ended` are ISO times.
    """

    kind: str
    settings: Json
    resolution: Json
    installed: Mapping[str, str]
    began: str
    ended: str


def add_source_date(env: Mapping[str, str], date: int) -> dict[str, str]:
    """Return `env` with SOURCE_DATE_EPOCH set to the time of the source.

    Compilers and archivers use it as the current time. A value of the user takes precedence.
    """
    return {"SOURCE_DATE_EPOCH": str(max(date, EARLIEST_TIMESTAMP)), **env}


def redact_json(value: Json, folders: Mapping[str, str], name: str = "") -> Json:
    """Return `value` without secrets and local paths.

    `folders` maps a local path to its placeholder ("{source}"). `name` is the key of the value.
    """
    if is_secret_name(name):
        return "***"
    match value:
        case dict():
            return {key: redact_json(item, folders, str(key)) for key, item in value.items()}
        case list():
            return [redact_json(item, folders) for item in value]
        case str():
            value = redact_secrets(value)
            # the longest path first: a directory may be inside another
            for folder in sorted(filter(None, folders), key=len, reverse=True):
                value = value.replace(folder, folders[folder])
    return value
