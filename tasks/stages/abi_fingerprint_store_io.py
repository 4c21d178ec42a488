"""Store the parts of recent ABI fingerprints, one compressed file each.

They are used only to report which header or symbol changed. No decision depends on them: without a
file, the report has less detail.
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

_MAX_STORED = 5  # about 2 MB each for a torch with CUDA
_PARTS_SUFFIX = ".json.gz"


def has_stored_parts(folder: PurePath, name: str) -> bool:
    """Return True if the parts of a fingerprint are stored, and mark them as most recently used."""
    try:
        os.utime(_resolve_parts_path(folder, name))
    except OSError:
        return False
    return True


def store_fingerprint_parts(folder: PurePath, parts: AbiDetails) -> None:
    """Store the parts of a fingerprint, and remove all but the newest few."""
    parts_path = _resolve_parts_path(folder, parts.surface.name)
    parts_path.parent.mkdir(parents=True, exist_ok=True)
    compressed = gzip.compress(
        json.dumps(convert_to_json(parts)).encode(), compresslevel=1, mtime=0
    )
    temporary = parts_path.with_name(f".{parts_path.name}")
    temporary.write_bytes(compressed)
    files.replace_path(temporary, parts_path)
    stored = sorted(
        parts_path.parent.glob(f"*{_PARTS_SUFFIX}"), key=lambda path: path.stat().st_mtime_ns
    )
    for old in stored[:-_MAX_STORED]:
        old.unlink(missing_ok=True)


def read_stored_parts(folder: PurePath, name: str) -> AbiDetails | None:
    """Return the parts of a fingerprint, or None if they are not stored or cannot be read."""
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - only where a surface moved

    try:
        text = gzip.decompress(_resolve_parts_path(folder, name).read_bytes())
        return TypeAdapter(AbiDetails).validate_json(text)
    except (OSError, EOFError, zlib.error, ValidationError):
        return None


def _resolve_parts_path(folder: PurePath, name: str) -> Path:
    return Path(folder) / f"{name}{_PARTS_SUFFIX}"
