"""Wheels as files: is every byte what RECORD says, is it for this Python, what does it hold.

Format: https://packaging.python.org/specifications/binary-distribution-format/ and
.../recording-installed-packages/.
"""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePath, PurePosixPath
from typing import IO

from packaging import tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from tasks.core.canonical_json import compute_text_sha256, format_canonical_json
from tasks.core.errors import BadArtifactError
from tasks.wheels import wheel_record

_READ_CHUNK = 1 << 20
LIBRARY_SUFFIXES = (".so", ".pyd", ".dll", ".dylib")


def verify_wheel(wheel: PurePath, python_version: str) -> Mapping[str, str]:
    """Check file name, tags and RECORD; returns path → sha256 (as RECORD writes it) of everything
    inside.

    Raises `BadArtifactError` naming the member that is wrong.
    """
    require_tags(wheel, python_version)
    with open_wheel(wheel) as archive:
        recorded = read_record(archive)
        require_recorded(archive, recorded, wheel)
    return recorded


def require_recorded(
    archive: zipfile.ZipFile, recorded: Mapping[str, str], wheel: PurePath
) -> None:
    """`BadArtifactError` naming the first member that is not what RECORD says."""
    for member in archive.infolist():
        _verify_member(archive, member, recorded, wheel)


@contextmanager
def open_wheel(wheel: PurePath) -> Iterator[zipfile.ZipFile]:
    """The archive, to read from; `BadArtifactError` where that shows that it is none, or broken."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, UnicodeDecodeError) as error:
        raise _build_wheel_error(wheel, f"not a readable archive: {error}") from error


def require_tags(wheel: PurePath, python_version: str) -> None:
    """`BadArtifactError` where the wheel is not for that CPython on this platform."""
    try:
        _, _, _, own = parse_wheel_filename(wheel.name)
    except InvalidWheelFilename as error:
        raise _build_wheel_error(wheel, str(error)) from error
    major, minor = (int(part) for part in python_version.split(".")[:2])
    fitting = {
        *tags.cpython_tags((major, minor)),
        *tags.compatible_tags((major, minor), f"cp{major}{minor}"),
    }
    if not own & fitting:
        named = ", ".join(sorted(str(tag) for tag in own))
        raise _build_wheel_error(
            wheel, f"it is for {named}, and not for Python {python_version} here"
        )


def list_libraries(recorded: Mapping[str, str]) -> Iterator[str]:
    """The shared libraries and extension modules among the members."""
    for name in recorded:
        if PurePosixPath(name).suffix in LIBRARY_SUFFIXES or ".so." in PurePosixPath(name).name:
            yield name


def compute_content_digest(recorded: Mapping[str, str], version_files: tuple[str, ...] = ()) -> str:
    """What would be installed, whatever it is called: without metadata and files that only hold the
    version.
    """
    kept = {
        name: digest
        for name, digest in recorded.items()
        if ".dist-info/" not in name and name not in version_files
    }
    return compute_text_sha256(format_canonical_json(kept))


def read_installed_record(site_packages: PurePath, name: str) -> Mapping[str, str]:
    """RECORD of an installed distribution, path → digest; empty where it has none (conda, system
    packages).
    """
    for record in Path(site_packages).glob(f"{name}-*.dist-info/RECORD"):
        found = wheel_record.parse_record(record.read_text(encoding="utf-8"))
        return {path: digest for path, digest, _ in found}
    return {}


def read_record(archive: zipfile.ZipFile) -> dict[str, str]:
    """RECORD of an open wheel: path → digest. `BadArtifactError` where it has none, or two."""
    text = archive.read(find_dist_info_file(archive, "RECORD")).decode("utf-8")
    return {path: digest for path, digest, _ in wheel_record.parse_record(text)}


def find_dist_info_file(archive: zipfile.ZipFile, name: str) -> str:
    """A file of the wheel's own dist-info, and not of one that is vendored in it. Raises
    `BadArtifactError` where there is none, or more than one.
    """
    ending = f".dist-info/{name}"
    found = [one for one in archive.namelist() if one.count("/") == 1 and one.endswith(ending)]
    if len(found) != 1:
        raise _build_wheel_error(PurePath(archive.filename or ""), f"it has no {name}")
    return found[0]


def read_wheel_metadata(wheel: Path) -> str:
    """METADATA of a wheel. Raises `BadArtifactError` where it has none."""
    with open_wheel(wheel) as archive:
        return archive.read(find_dist_info_file(archive, "METADATA")).decode("utf-8")


def _verify_member(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, recorded: Mapping[str, str], wheel: PurePath
) -> None:
    wanted = require_member_digest(member, recorded, wheel)
    if wanted and hash_member(archive, member) != wanted:
        raise build_member_error(member.filename, wheel)


def require_member_digest(
    member: zipfile.ZipInfo, recorded: Mapping[str, str], wheel: PurePath
) -> str:
    """The digest that RECORD has for a member, "" for the few that need none.

    `BadArtifactError` where it has none, or where the member would be written outside.
    """
    name = member.filename
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name:
        raise _build_wheel_error(wheel, f"its member {name} would be written outside")
    if member.is_dir() or name.endswith((".dist-info/RECORD", "RECORD.jws", "RECORD.p7s")):
        return ""
    if not recorded.get(name, "").startswith("sha256="):
        raise _build_wheel_error(wheel, f"its member {name} is not in RECORD with a sha256")
    return recorded[name]


def build_member_error(name: str, wheel: PurePath) -> BadArtifactError:
    """A member with other bytes than RECORD says."""
    return _build_wheel_error(wheel, f"its member {name} is not what RECORD says")


def hash_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> str:
    """The sha256 of what a member holds, as RECORD writes it."""
    with archive.open(member) as stream:
        return copy_and_hash(stream, None)


def copy_and_hash(source: IO[bytes], target: IO[bytes] | None) -> str:
    """Copy a stream, or only read it; returns its sha256 as RECORD writes it."""
    digest = hashlib.sha256()
    while chunk := source.read(_READ_CHUNK):
        digest.update(chunk)
        if target:
            target.write(chunk)
    return wheel_record.encode_digest(digest.digest())


def _build_wheel_error(wheel: PurePath, what: str) -> BadArtifactError:
    return BadArtifactError(
        f"this wheel cannot be used: {what}",
        location=str(wheel),
        hint="remove it and run the same command again",
    )
