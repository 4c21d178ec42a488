"""What the last surfaces consist of, one compressed file for each, so that a person is told which
header or which symbol moved. Nothing is decided by them: without one, less is told.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from pathlib import Path, PurePath

from tasks.core.canonical_json import convert_to_json
from tasks.stages.wheel.model import AbiDetails
from tasks.system import files

_MAX_STORED = 5  # some 2 MB each for a torch with CUDA
_PARTS_SUFFIX = ".json.gz"


def has_stored_parts(folder: PurePath, name: str) -> bool:
    """Whether the parts of a surface are there; they are then the newest."""
    try:
        os.utime(_resolve_parts_path(folder, name))
    except OSError:
        return False
    return True


def store_fingerprint_parts(folder: PurePath, parts: AbiDetails) -> None:
    """Keep the parts of a surface, and the newest few of all."""
    place = _resolve_parts_path(folder, parts.surface.name)
    place.parent.mkdir(parents=True, exist_ok=True)
    packed = gzip.compress(json.dumps(convert_to_json(parts)).encode(), compresslevel=1, mtime=0)
    arriving = place.with_name(f".{place.name}")
    arriving.write_bytes(packed)
    files.replace_path(arriving, place)
    every = sorted(place.parent.glob(f"*{_PARTS_SUFFIX}"), key=lambda path: path.stat().st_mtime_ns)
    for old in every[:-_MAX_STORED]:
        old.unlink(missing_ok=True)


def read_stored_parts(folder: PurePath, name: str) -> AbiDetails | None:
    """The parts of a surface, None where they are not kept any more, or cannot be read."""
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - only where a surface moved

    try:
        text = gzip.decompress(_resolve_parts_path(folder, name).read_bytes())
        return TypeAdapter(AbiDetails).validate_json(text)
    except (OSError, EOFError, zlib.error, ValidationError):
        return None


def _resolve_parts_path(folder: PurePath, name: str) -> Path:
    return Path(folder) / f"{name}{_PARTS_SUFFIX}"
