"""Folders of submodules with nothing in them, by the text of .gitmodules: no git is asked."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

from tasks.core.check_ids import CheckId
from tasks.doctor.host_facts import Asked, Unfetched
from tasks.system.folders import holds_something

# git-config(5), "Syntax"; gitmodules(5) for the keys
_SECTION = re.compile(r"^\s*\[", re.MULTILINE)
_PATH = re.compile(r"^\s*path\s*=\s*\"?([^\"#;\n]+?)\"?\s*(?:[#;].*)?$", re.MULTILINE | re.I)
_NEVER = re.compile(r"^\s*update\s*=\s*none\b", re.MULTILINE | re.I)


def look(asked: Asked, wanted: frozenset[CheckId]) -> dict[str, Any]:
    """`unfetched`."""
    if "submodules" not in wanted or not asked.build:
        return {}
    found = (one for name, *folders in asked.own for one in _of(name, *folders))
    return {"unfetched": tuple(found)}


def _of(extension: str, copied: PurePath, built: PurePath) -> Iterator[Unfetched]:
    """By .gitmodules of both, and of the work tree that they are in."""
    with contextlib.suppress(OSError):  # who copies it tells what is wrong with it
        whole, source = Path(copied).resolve(), Path(built).resolve()
        around = (source, *source.parents)
        top = next((place for place in around if _is_clone(place)), source)
        for tree in dict.fromkeys((source, whole, top)):
            if empty := tuple(_empty(tree, whole)):
                yield Unfetched(extension, source, tree, empty, _is_clone(tree))


def _is_clone(place: Path) -> bool:
    return (place / ".git").exists()


def _empty(tree: Path, copied: Path) -> Iterator[Path]:
    """Those that are copied, and those that the copied folder lies in."""
    for path in _named(tree / ".gitmodules"):
        place = tree / path
        near = place.is_relative_to(copied) or copied.is_relative_to(place)
        if near and not holds_something(place):
            yield place


def _named(gitmodules: Path) -> Iterator[str]:
    """The paths that it names, without those that git never fetches."""
    if not gitmodules.is_file():
        return
    for section in _SECTION.split(gitmodules.read_text(encoding="utf-8", errors="replace")):
        if not _NEVER.search(section) and (path := _PATH.search(section)):
            yield path[1]
