"""The libraries that a build left, as one digest by path and content.

What each was when it was last read is kept in a file: of half a gigabyte a changed source makes
one library anew. As git's index does, that goes by size, time and inode.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath

from tasks.system.files import read_artifact, write_atomic

_LIBRARY_NAME = re.compile(r".+\.(so(\.\d+)*|dll|dylib|a|lib|pyd)")
_SKIPPED_FOLDERS = ("CMakeFiles", "CMakeTmp")
_RECENT = ""
_TICK = 2_000_000_000  # ns: as coarse as a file system's clock may be


def compute_library_digest(folders: Iterable[PurePath], start: PurePath, known: PurePath) -> str:
    """sha256 over every library in `folders`, by its path from `start`; folders may be missing.

    The file `known` is what this function keeps; without it every library is read.
    """
    before, now = _read_known_digests(Path(known)), {}
    total = hashlib.sha256()
    for path in sorted(path for folder in folders for path in _find_libraries(Path(folder))):
        name = Path(os.path.relpath(path, start)).as_posix()
        held, stamp = before.get(str(path)), _compute_file_stamp(path)
        content = held[1] if held and held[0] == stamp else read_artifact(path).sha256
        total.update(f"{name}\0{content}\n".encode())
        if stamp != _RECENT:
            now[str(path)] = (stamp, content)
    if now != before:
        write_atomic(Path(known), json.dumps(now))
    return total.hexdigest()


def _read_known_digests(path: Path) -> dict[str, tuple[str, str]]:
    """By path: what it looked like, and the digest of what it held."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {name: (str(stamp), str(content)) for name, (stamp, content) in found.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def _compute_file_stamp(path: Path) -> str:
    """`_RECENT` where it may change once more without looking different. The time of the inode
    itself is left out: wheel makes hard links to these files, which changes it.
    """
    there = path.stat()
    if time.time_ns() - there.st_mtime_ns < _TICK:
        return _RECENT
    return f"{there.st_size} {there.st_mtime_ns} {there.st_ino}"


def _find_libraries(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if (
            _LIBRARY_NAME.fullmatch(path.name)
            and path.is_file()
            and not _is_compiler_check(path, folder)
        ):
            yield path


def _is_compiler_check(path: Path, folder: Path) -> bool:
    """What CMake compiled to learn about the compiler."""
    return any(part in _SKIPPED_FOLDERS for part in path.relative_to(folder).parts)
