"""The libraries that a build left, as one digest by path and content."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath

_LIBRARY = re.compile(r".+\.(so(\.\d+)*|dll|dylib|a|lib|pyd)")
_SKIPPED = ("CMakeFiles", "CMakeTmp")


def digest(folders: Iterable[PurePath], start: PurePath) -> str:
    """sha256 over every library in `folders`, by its path from `start`; folders may be missing."""
    total = hashlib.sha256()
    for path in sorted(path for folder in folders for path in _libraries(Path(folder))):
        name = Path(os.path.relpath(path, start)).as_posix()
        with path.open("rb") as stream:
            total.update(f"{name}\0{hashlib.file_digest(stream, 'sha256').hexdigest()}\n".encode())
    return total.hexdigest()


def _libraries(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if _LIBRARY.fullmatch(path.name) and path.is_file() and not _is_trial(path, folder):
            yield path


def _is_trial(path: Path, folder: Path) -> bool:
    """What CMake compiled to learn about the compiler."""
    return any(part in _SKIPPED for part in path.relative_to(folder).parts)
