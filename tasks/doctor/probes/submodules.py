"""Folders of submodules with nothing in them, by the text of .gitmodules: no git is asked."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

from tasks.core.check_ids import CheckId
from tasks.doctor.host_facts import MissingSubmodules, ProbeRequest
from tasks.system.folders import has_content

# git-config(5), "Syntax"; gitmodules(5) for the keys
_GITMODULES_SECTION = re.compile(r"^\s*\[", re.MULTILINE)
_GITMODULES_PATH = re.compile(
    r"^\s*path\s*=\s*\"?([^\"#;\n]+?)\"?\s*(?:[#;].*)?$", re.MULTILINE | re.I
)
_NEVER_UPDATED = re.compile(r"^\s*update\s*=\s*none\b", re.MULTILINE | re.I)


def read_submodule_facts(asked: ProbeRequest, wanted: frozenset[CheckId]) -> dict[str, Any]:
    """`unfetched`."""
    if "submodules" not in wanted or not asked.build:
        return {}
    found = (
        one for name, *folders in asked.own for one in _find_missing_submodules(name, *folders)
    )
    return {"unfetched": tuple(found)}


def _find_missing_submodules(
    extension: str, copied: PurePath, built: PurePath
) -> Iterator[MissingSubmodules]:
    """By .gitmodules of both, and of the work tree that they are in."""
    with contextlib.suppress(OSError):  # who copies it tells what is wrong with it
        whole, source = Path(copied).resolve(), Path(built).resolve()
        around = (source, *source.parents)
        top = next((place for place in around if _is_git_clone(place)), source)
        for tree in dict.fromkeys((source, whole, top)):
            if empty := tuple(_find_empty_submodules(tree, whole)):
                yield MissingSubmodules(extension, source, tree, empty, _is_git_clone(tree))


def _is_git_clone(place: Path) -> bool:
    return (place / ".git").exists()


def _find_empty_submodules(tree: Path, copied: Path) -> Iterator[Path]:
    """Those that are copied, and those that the copied folder lies in."""
    for path in _parse_submodule_paths(tree / ".gitmodules"):
        place = tree / path
        near = place.is_relative_to(copied) or copied.is_relative_to(place)
        if near and not has_content(place):
            yield place


def _parse_submodule_paths(gitmodules: Path) -> Iterator[str]:
    """The paths that it names, without those that git never fetches."""
    if not gitmodules.is_file():
        return
    for section in _GITMODULES_SECTION.split(
        gitmodules.read_text(encoding="utf-8", errors="replace")
    ):
        if not _NEVER_UPDATED.search(section) and (path := _GITMODULES_PATH.search(section)):
            yield path[1]
