"""The pages of a static package index, as the Simple Repository API has them
(https://packaging.python.org/specifications/simple-repository-api/): for each project a page as
JSON, and what a template makes HTML of. Links are relative, so that any server serves them.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from packaging.utils import canonicalize_name, parse_wheel_filename

_API_META = {"api-version": "1.1"}


@dataclass(frozen=True)
class IndexFile:
    """A wheel on the index: `sha256` of it and of its METADATA, `size` in bytes, `uploaded` in UTC
    (`2026-11-22T10:00:00Z`); `yanked` is the reason, "" where it is not.
    """

    filename: str
    sha256: str
    size: int
    metadata: str
    uploaded: str
    requires_python: str = ""
    yanked: str = ""

    @property
    def project(self) -> str:
        """The normalized name of what it is a wheel of."""
        return str(canonicalize_name(self.filename.partition("-")[0]))

    @property
    def version(self) -> str:
        """With its local part."""
        return str(parse_wheel_filename(self.filename)[1])

    @property
    def url(self) -> str:
        """From a project's page. A plus sign is a space to some stores of objects."""
        return f"../../files/{quote(self.filename)}"


def format_project_page(name: str, files: Iterable[IndexFile]) -> str:
    """A project's page as JSON."""
    listed = sorted(files, key=lambda file: file.filename)
    page = {
        "meta": _API_META,
        "name": name,
        "versions": sorted({file.version for file in listed}),
        "files": [_build_file_entry(file) for file in listed],
    }
    return _format_json_page(page)


def format_project_list(names: Iterable[str]) -> str:
    """The list of projects as JSON."""
    return _format_json_page(
        {"meta": _API_META, "projects": [{"name": name} for name in sorted(names)]}
    )


def parse_project_page(text: str) -> tuple[IndexFile, ...]:
    """The files of a project's page. Raises `ValueError` where it is none of ours."""
    try:
        return tuple(_parse_file_entry(entry) for entry in json.loads(text)["files"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"this is no page of a project: {error!r}") from error


def _build_file_entry(file: IndexFile) -> Mapping[str, Any]:
    return {
        "filename": file.filename,
        "url": file.url,
        "hashes": {"sha256": file.sha256},
        "size": file.size,
        "upload-time": file.uploaded,
        "core-metadata": {"sha256": file.metadata},
        **({"requires-python": file.requires_python} if file.requires_python else {}),
        "yanked": file.yanked or False,
    }


def _parse_file_entry(entry: Mapping[str, Any]) -> IndexFile:
    return IndexFile(
        filename=str(entry["filename"]),
        sha256=str(entry["hashes"]["sha256"]),
        size=int(entry["size"]),
        metadata=str(entry["core-metadata"]["sha256"]),
        uploaded=str(entry["upload-time"]),
        requires_python=str(entry.get("requires-python", "")),
        yanked=str(entry.get("yanked") or ""),
    )


def _format_json_page(page: Mapping[str, Any]) -> str:
    return json.dumps(page, indent=1, ensure_ascii=False) + "\n"


# an extension's `torch2.15.0.s1a2b3c4d.cu132.sm120` and torch's `cu132.sm120.g1a2b3c4`: what a
# rebuild changes and nothing else does
_REBUILD_LABEL = re.compile(
    r"(?:^|\.)(?:s[0-9a-f]{8}|g[0-9a-f]{7,40}|t[0-9a-f]{7}|d[0-9a-f]{6})(?=\.|$)"
)


def select_retained(files: Iterable[IndexFile], newest: int | None) -> tuple[IndexFile, ...]:
    """Those that stay where `newest` of each kind do (all of them where it is None).

    Of one kind is what one machine would take in the place of the other: the same release for the
    same Python and platform, for the same CUDA and archs.
    """
    kinds: dict[tuple[str, ...], list[IndexFile]] = defaultdict(list)
    for file in files:
        kinds[_build_retention_key(file)].append(file)
    by_age = (sorted(kind, key=lambda file: file.uploaded) for kind in kinds.values())
    return tuple(file for kind in by_age for file in (kind[-newest:] if newest else kind))


def _build_retention_key(file: IndexFile) -> tuple[str, ...]:
    name, version, build, tags = parse_wheel_filename(file.filename)
    local = _REBUILD_LABEL.sub("", version.local or "")
    return (name, version.public, local, str(build), *sorted(map(str, tags)))
