"""What uv and pip leave in dist-info about the wheel that they installed, for the wheel after it.

Each is written only where the present one is, byte for byte, what would have been written for the
wheel before: then its form is known.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from urllib.parse import quote

from tasks.system import files

# uv leaves what a URL may hold as it is; pip does not
_SAFE_URL_CHARACTERS = {"uv": "/!$&'()*+,;:=@[]|^~", "pip": "/:" if os.name == "nt" else "/"}


def build_installer_files(
    own: Mapping[str, bytes], old: Iterable[PurePath], new: Path
) -> dict[str, bytes] | None:
    """The installer's own files for the wheel `new`, by name; `own` are those that are there, `old`
    the places where the wheel before may have lain. None where one has an unknown form.
    """
    made = dict(own)
    installer = own.get("INSTALLER", b"").decode().strip()
    if installer not in _SAFE_URL_CHARACTERS:
        return None
    if "direct_url.json" in own:
        url = _build_direct_url(own["direct_url.json"], installer, old, new)
        if url is None:
            return None
        made["direct_url.json"] = url
    if "uv_cache.json" in own:
        stamp = _build_uv_cache(own["uv_cache.json"], new)
        if stamp is None:
            return None
        made["uv_cache.json"] = stamp
    return made


def _build_direct_url(
    held: bytes, installer: str, old: Iterable[PurePath], new: Path
) -> bytes | None:
    """PEP 610; uv gives no digest and writes no blanks, pip before 23.1 gives none or one."""
    try:
        told = json.loads(held)["archive_info"]
        digest = told.get("hash", "").removeprefix("sha256=")
    except (ValueError, KeyError, AttributeError):
        return None
    for place in old:
        if _format_direct_url(place, digest, installer, twice="hashes" in told) == held:
            own = files.read_artifact(new).sha256 if digest else ""
            return _format_direct_url(new, own, installer, twice="hashes" in told)
    return None


def _format_direct_url(wheel: PurePath, digest: str, installer: str, *, twice: bool) -> bytes:
    posix = wheel.as_posix()
    url = f"file://{'' if posix.startswith('/') else '/'}{quote(posix, safe=_SAFE_URL_CHARACTERS[installer])}"
    if installer == "uv":
        return json.dumps({"url": url, "archive_info": {}}, separators=(",", ":")).encode()
    hashes = {"hashes": {"sha256": digest}} if twice else {}
    told = {"hash": f"sha256={digest}", **hashes} if digest else {}
    return json.dumps({"archive_info": told, "url": url}, sort_keys=True).encode()


def _build_uv_cache(held: bytes, new: Path) -> bytes | None:
    """When uv saw the wheel last change: on Unix by its inode."""
    try:
        stamp = json.loads(held)["timestamp"]
        then = stamp["secs_since_epoch"] * 10**9 + stamp["nanos_since_epoch"]
    except (ValueError, KeyError, TypeError):
        return None
    if _format_uv_timestamp(then) != held:
        return None
    found = new.stat()
    return _format_uv_timestamp(found.st_mtime_ns if sys.platform == "win32" else found.st_ctime_ns)


def _format_uv_timestamp(nanoseconds: int) -> bytes:
    seconds, rest = divmod(nanoseconds, 10**9)
    told = {
        "timestamp": {"secs_since_epoch": seconds, "nanos_since_epoch": rest},
        "commit": None,
        "tags": None,
        "env": {},
        "directories": {},
    }
    return json.dumps(told, separators=(",", ":")).encode()
