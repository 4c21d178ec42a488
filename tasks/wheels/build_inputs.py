"""What a wheel was made from, as far as that is known: the value that both documents are written
from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath

from tasks.core.errors import is_secret_name, redact_secrets
from tasks.core.model import Json

EARLIEST_TIMESTAMP = 315_532_800  # 1980-01-01, UTC: no archive of wheels holds an earlier time


@dataclass(frozen=True)
class SourceInfo:
    """A source. `url` is "" where it is a folder of this machine; a checkout has its `commit`, any
    other source a `digest` (sha256) of it; `edits` is a digest of what differs from that, "" when
    clean. `submodules` maps paths to commits, `patches` are the sha256 of those applied.
    """

    url: str = ""
    commit: str = ""
    digest: str = ""
    edits: str = ""
    submodules: Mapping[str, str] = field(default_factory=dict)
    patches: tuple[str, ...] = ()


@dataclass(frozen=True)
class BuildTool:
    """A compiler; `digest` is the beginning of the sha256 of its file, "" where it is not known."""

    name: str
    version: str
    digest: str = ""


def describe_tool(path: str, version: str, digest: str) -> BuildTool:
    """By the name that it was found under, without its folder."""
    return BuildTool(PurePath(path).name, version, digest)


@dataclass(frozen=True)
class BuildInputs:
    """A wheel by `name` and `version`, and what went into it.

    `epoch` is the time of the source, in seconds since 1970. `cuda` is the full version of the
    toolkit and its nvcc, "" where none is used, `packages` the exact requirements that made it.
    `torch` and `surface` are those that an extension was built against, "" for torch itself.
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
    """How it was made. `kind` is "torch" or "extension", `asked` the settings, `decided` what came
    of them, both ready to be shown; `installed` are name and version of each package of the build
    environment; `began` and `ended` are ISO times.
    """

    kind: str
    settings: Json
    resolution: Json
    installed: Mapping[str, str]
    began: str
    ended: str


def add_source_date(env: Mapping[str, str], date: int) -> dict[str, str]:
    """An environment in which compilers and archivers take the time of the source for now, where a
    person named no other.
    """
    return {"SOURCE_DATE_EPOCH": str(max(date, EARLIEST_TIMESTAMP)), **env}


def redact_json(value: Json, folders: Mapping[str, str], name: str = "") -> Json:
    """`value` without what opens something; `folders` maps a path of this machine to the word that
    stands for it ("{source}"). `name` is the key that the value has.
    """
    if is_secret_name(name):
        return "***"
    match value:
        case dict():
            return {key: redact_json(item, folders, str(key)) for key, item in value.items()}
        case list():
            return [redact_json(item, folders) for item in value]
        case str():
            return _replace_folders(redact_secrets(value), folders)
    return value


def _replace_folders(text: str, folders: Mapping[str, str]) -> str:
    """The deepest folder first: one may lie in another."""
    for folder in sorted(filter(None, folders), key=len, reverse=True):
        text = text.replace(folder, folders[folder])
    return text
