"""The build inputs of a wheel, which the SBOM and the provenance statement describe."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from tasks.core.errors import is_secret_name, redact_secrets
from tasks.core.model import Json

EARLIEST_TIMESTAMP = 315_532_800  # 1980-01-01 UTC, the earliest time in a zip archive


@dataclass(frozen=True)
class SourceInfo:
    """The source of a build: a git checkout with a `commit`, or a tree with a `digest` (sha256).

    `url` is "" if the source is a local directory. `edits` is a digest of the local changes, "" if
    there are none. `submodules` maps paths to commits. `patches` are the sha256 of applied patches.
    """

    url: str = ""
    commit: str = ""
    digest: str = ""
    edits: str = ""
    submodules: Mapping[str, str] = field(default_factory=dict)
    patches: tuple[str, ...] = ()


@dataclass(frozen=True)
class BuildTool:
    """A compiler. `digest` is the beginning of the executable's sha256, "" if unknown."""

    name: str
    version: str
    digest: str = ""


def describe_tool(path: str, version: str, digest: str) -> BuildTool:
    """Return a build tool, named after the file name of `path`."""
    return BuildTool(PurePath(path).name, version, digest)


@dataclass(frozen=True)
class BuildInputs:
    """The build inputs of a wheel. `epoch` is the date of its sources (Unix time).

    `cuda` is the version of the CUDA toolkit, and `packages` are the requirements that installed
    it. For an extension, `torch` is the torch version, and `surface` the ABI fingerprint of torch.
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
    """The settings, the resolution and the installed packages of a build, without secrets.

    `kind` is "torch" or "extension". `began` and `ended` are the times of the build.
    """

    kind: str
    settings: Json
    resolution: Json
    installed: Mapping[str, str]
    began: str
    ended: str


def add_source_date(env: Mapping[str, str], date: int) -> dict[str, str]:
    """Return `env` with SOURCE_DATE_EPOCH set to `date`, unless `env` already sets the variable."""
    # compilers and archivers use this time as the current time
    return {"SOURCE_DATE_EPOCH": str(max(date, EARLIEST_TIMESTAMP)), **env}


def redact_json(value: Json, folders: Mapping[str, str], name: str = "") -> Json:
    """Replace secrets in `value` by ***, and the paths in `folders` by their placeholders."""
    if is_secret_name(name):
        return "***"
    match value:
        case dict():
            return {key: redact_json(item, folders, str(key)) for key, item in value.items()}
        case list():
            return [redact_json(item, folders) for item in value]
        case str():
            value = redact_secrets(value)
            # the longest path first: one directory may contain another
            for folder in sorted(filter(None, folders), key=len, reverse=True):
                value = value.replace(folder, folders[folder])
    return value
