"""What the last surfaces consist of, one compressed file for each, so that a person is told which
header or which symbol moved. Nothing is decided by them: without one, less is told.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from pathlib import Path, PurePath

from tasks.core.digest import plain
from tasks.stages.wheel.job import Parts
from tasks.system import files

_KEPT = 5  # some 2 MB each for a torch with CUDA
_SUFFIX = ".json.gz"


def known(folder: PurePath, name: str) -> bool:
    """Whether the parts of a surface are there; they are then the newest."""
    try:
        os.utime(_place(folder, name))
    except OSError:
        return False
    return True


def keep(folder: PurePath, parts: Parts) -> None:
    """Keep the parts of a surface, and the newest few of all."""
    place = _place(folder, parts.surface.name)
    place.parent.mkdir(parents=True, exist_ok=True)
    packed = gzip.compress(json.dumps(plain(parts)).encode(), compresslevel=1, mtime=0)
    arriving = place.with_name(f".{place.name}")
    arriving.write_bytes(packed)
    files.move(arriving, place)
    every = sorted(place.parent.glob(f"*{_SUFFIX}"), key=lambda path: path.stat().st_mtime_ns)
    for old in every[:-_KEPT]:
        old.unlink(missing_ok=True)


def read(folder: PurePath, name: str) -> Parts | None:
    """The parts of a surface, None where they are not kept any more, or cannot be read."""
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - only where a surface moved

    try:
        text = gzip.decompress(_place(folder, name).read_bytes())
        return TypeAdapter(Parts).validate_json(text)
    except (OSError, EOFError, zlib.error, ValidationError):
        return None


def _place(folder: PurePath, name: str) -> Path:
    return Path(folder) / f"{name}{_SUFFIX}"
