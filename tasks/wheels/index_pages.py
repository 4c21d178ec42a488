"""Format and parse the pages of a static package index (Simple Repository API)."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from packaging.utils import parse_wheel_filename

_API_META = {"api-version": "1.1"}


@dataclass(frozen=True)
class IndexFile:
    """A wheel on the index.

    `metadata` is the sha256 of METADATA. `uploaded` is a time in UTC (`2026-11-22T10:00:00Z`).
    `yanked` is the reason why the file was yanked, "" for other files.
    """

    filename: str
    sha256: str
    size: int
    metadata: str
    uploaded: str
    requires_python: str = ""
    yanked: str = ""

    @property
    def url(self) -> str:
        """Return the relative URL, with `+` quoted because some servers read `+` as a space."""
        return f"../../files/{quote(self.filename)}"


def format_project_page(name: str, files: Iterable[IndexFile]) -> str:
    """Return the JSON page of the project `name`, which lists `files`."""
    sorted_files = sorted(files, key=lambda file: file.filename)
    entries = [
        {
            "filename": file.filename,
            "url": file.url,
            "hashes": {"sha256": file.sha256},
            "size": file.size,
            "upload-time": file.uploaded,
            "core-metadata": {"sha256": file.metadata},
            **({"requires-python": file.requires_python} if file.requires_python else {}),
            "yanked": file.yanked or False,
        }
        for file in sorted_files
    ]
    versions = sorted({str(parse_wheel_filename(file.filename)[1]) for file in sorted_files})
    return _format_json_page({"name": name, "versions": versions, "files": entries})


def format_project_list(names: Iterable[str]) -> str:
    """Return the JSON page that lists all projects."""
    return _format_json_page({"projects": [{"name": name} for name in sorted(names)]})


def parse_project_page(text: str) -> tuple[IndexFile, ...]:
    """Return the files that a JSON page lists. Raises `ValueError` for an unknown format."""
    try:
        return tuple(
            IndexFile(
                filename=str(entry["filename"]),
                sha256=str(entry["hashes"]["sha256"]),
                size=int(entry["size"]),
                metadata=str(entry["core-metadata"]["sha256"]),
                uploaded=str(entry["upload-time"]),
                requires_python=str(entry.get("requires-python", "")),
                yanked=str(entry.get("yanked") or ""),
            )
            for entry in json.loads(text)["files"]
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"another program than torchyard wrote this index page: {error!r}"
        ) from error


def _format_json_page(page: Mapping[str, Any]) -> str:
    return json.dumps({"meta": _API_META, **page}, indent=1, ensure_ascii=False) + "\n"


# The parts of a local version that only distinguish rebuilds: `s1a2b3c4d` in an extension's
# `torch2.15.0.s1a2b3c4d.cu132.sm120`, `g1a2b3c4` in torch's `cu132.sm120.g1a2b3c4`
_REBUILD_LABEL = re.compile(
    r"(?:^|\.)(?:s[0-9a-f]{8}|g[0-9a-f]{7,40}|t[0-9a-f]{7}|d[0-9a-f]{6})(?=\.|$)"
)


def select_retained(files: Iterable[IndexFile], newest: int | None) -> tuple[IndexFile, ...]:
    """Return the newest rebuilds for each combination of release, Python, platform, CUDA and GPU.

    `newest` is the number of rebuilds for each combination, None for all.
    """
    kinds: dict[tuple[str, ...], list[IndexFile]] = defaultdict(list)
    for file in sorted(files, key=lambda file: file.uploaded):
        name, version, build, tags = parse_wheel_filename(file.filename)
        local = _REBUILD_LABEL.sub("", version.local or "")
        kinds[name, version.public, local, str(build), *sorted(map(str, tags))].append(file)
    return tuple(file for kind in kinds.values() for file in (kind[-newest:] if newest else kind))
