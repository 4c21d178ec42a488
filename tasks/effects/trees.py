"""Folders of sources: what they hold as one digest, and a copy to build in. What builds leave
behind is not source.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePath

_TOP = frozenset(
    {"build", "dist", ".venv", "venv"}
)  # only at the top: deeper down they can be sources
_ANYWHERE = frozenset({".git", ".hg", "__pycache__"})


def digest(folder: PurePath) -> str:
    """sha256 over the relative path and content of every source file, in a fixed order."""
    root = Path(folder)
    whole = hashlib.sha256()
    for path in sorted(_sources(root)):
        name = path.relative_to(root).as_posix().encode()
        content = path.read_bytes()
        whole.update(b"%d:%s%d:" % (len(name), name, len(content)) + content)
    return whole.hexdigest()


def copy(folder: PurePath, dest: PurePath) -> None:
    """A copy of the sources in `dest`, which must not be there yet; links are copied as links."""
    top = str(folder)

    def leavings(place: str, names: list[str]) -> set[str]:
        return {name for name in names if _is_leaving(name, at_top=place == top)}

    shutil.copytree(top, dest, symlinks=True, ignore=leavings)


def _sources(root: Path, *, at_top: bool = True) -> Iterator[Path]:
    for path in root.iterdir():
        if _is_leaving(path.name, at_top=at_top):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _sources(path, at_top=False)
        elif path.is_file():
            yield path


def _is_leaving(name: str, *, at_top: bool) -> bool:
    return name in _ANYWHERE or name.endswith(".egg-info") or (at_top and name in _TOP)
