"""Store the headers and symbols of recent ABI fingerprints, to report which of them changed."""

import gzip
import json
import os
import zlib
from pathlib import Path, PurePath

from tasks.core.canonical_json import convert_to_json
from tasks.stages.wheel.model import AbiDetails
from tasks.system import files, manifests

_MAX_STORED = 5  # about 2 MB each for a torch with CUDA
_PARTS_SUFFIX = ".json.gz"


def has_stored_parts(folder: PurePath, name: str) -> bool:
    """Return True if `folder` has the file of the fingerprint `name`, and make it the newest."""
    try:
        os.utime(_resolve_parts_path(folder, name))
    except OSError:
        return False
    return True


def store_fingerprint_parts(folder: PurePath, parts: AbiDetails) -> None:
    """Store the details of an ABI fingerprint, and keep only the `_MAX_STORED` newest files."""
    parts_path = _resolve_parts_path(folder, parts.surface.name)
    parts_path.parent.mkdir(parents=True, exist_ok=True)
    content = json.dumps(convert_to_json(parts)).encode()
    temporary = parts_path.with_name(f".{parts_path.name}")
    temporary.write_bytes(gzip.compress(content, compresslevel=1, mtime=0))
    files.replace_path(temporary, parts_path)
    stored = parts_path.parent.glob(f"*{_PARTS_SUFFIX}")
    for old in sorted(stored, key=lambda path: path.stat().st_mtime_ns)[:-_MAX_STORED]:
        old.unlink(missing_ok=True)


def read_stored_parts(folder: PurePath, name: str) -> AbiDetails | None:
    """Return the details of an ABI fingerprint, or None if they are missing or unreadable."""
    try:
        text = gzip.decompress(_resolve_parts_path(folder, name).read_bytes())
        return manifests.parse_json(text, AbiDetails)
    except (OSError, EOFError, zlib.error, ValueError):
        return None


def _resolve_parts_path(folder: PurePath, name: str) -> Path:
    return Path(folder) / f"{name}{_PARTS_SUFFIX}"
