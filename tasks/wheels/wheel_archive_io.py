"""Read and verify wheel files: RECORD digests, tags and contents."""

import hashlib
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePath, PurePosixPath
from typing import IO
from zipfile import BadZipFile, ZipFile, ZipInfo

from packaging import tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from tasks.core.canonical_json import compute_text_sha256, format_canonical_json
from tasks.core.errors import BadArtifactError
from tasks.wheels import wheel_record

_READ_CHUNK = 1 << 20
LIBRARY_SUFFIXES = (".so", ".pyd", ".dll", ".dylib")


def verify_wheel(wheel: PurePath, python_version: str) -> Mapping[str, str]:
    """Verify the tags and members of a wheel. Return the RECORD digests, or raise an error."""
    require_tags(wheel, python_version)
    with open_wheel(wheel) as archive:
        require_recorded(archive, recorded := read_record(archive), wheel)
    return recorded


def require_recorded(archive: ZipFile, recorded: Mapping[str, str], wheel: PurePath) -> None:
    """Raise `BadArtifactError` if a member does not match its RECORD digest in `recorded`."""
    for member in archive.infolist():
        digest = require_member_digest(member, recorded, wheel)
        if digest and hash_member(archive, member) != digest:
            raise build_member_error(member.filename, wheel)


@contextmanager
def open_wheel(wheel: PurePath) -> Iterator[ZipFile]:
    """Yield the archive of a wheel. Raises `BadArtifactError` if the archive is not valid."""
    try:
        with ZipFile(wheel) as archive:
            yield archive
    except (BadZipFile, zlib.error, EOFError, UnicodeDecodeError) as error:
        raise _build_wheel_error(wheel, f"the archive cannot be read: {error}") from error


def require_tags(wheel: PurePath, python_version: str) -> None:
    """Raise `BadArtifactError` unless the wheel supports `python_version` on this platform."""
    try:
        _, _, _, wheel_tags = parse_wheel_filename(wheel.name)
    except InvalidWheelFilename as error:
        raise _build_wheel_error(wheel, str(error)) from error
    major, minor = (int(part) for part in python_version.split(".")[:2])
    own_tags = tags.cpython_tags((major, minor))
    other_tags = tags.compatible_tags((major, minor), f"cp{major}{minor}")
    if wheel_tags.isdisjoint({*own_tags, *other_tags}):
        tag_names = ", ".join(sorted(map(str, wheel_tags)))
        problem = f"it is for {tag_names}, not for Python {python_version} on this platform"
        raise _build_wheel_error(wheel, problem)


def list_libraries(recorded: Mapping[str, str]) -> Iterator[str]:
    """Yield those paths in `recorded` that are shared libraries or extension modules."""
    for name in recorded:
        path = PurePosixPath(name)
        if path.suffix in LIBRARY_SUFFIXES or ".so." in path.name:
            yield name


def compute_content_digest(recorded: Mapping[str, str], version_files: tuple[str, ...] = ()) -> str:
    """Return a digest of all members of a wheel except dist-info and the paths `version_files`."""
    names = [n for n in recorded if ".dist-info/" not in n and n not in version_files]
    return compute_text_sha256(format_canonical_json({name: recorded[name] for name in names}))


def read_installed_record(site_packages: PurePath, name: str) -> Mapping[str, str]:
    """Return the digests in a package's RECORD by path, {} without a RECORD."""
    for record in Path(site_packages).glob(f"{name}-*.dist-info/RECORD"):
        rows = wheel_record.parse_record(record.read_text(encoding="utf-8"))
        return {path: digest for path, digest, _ in rows}
    return {}


def read_record(archive: ZipFile) -> dict[str, str]:
    """Return RECORD digests by path; raise `BadArtifactError` unless exactly one RECORD exists."""
    text = archive.read(find_dist_info_file(archive, "RECORD")).decode("utf-8")
    return {path: digest for path, digest, _ in wheel_record.parse_record(text)}


def find_dist_info_file(archive: ZipFile, name: str) -> str:
    """Return the path of the dist-info file `name`; raise if not exactly one exists."""
    suffix = f".dist-info/{name}"
    members = [one for one in archive.namelist() if one.count("/") == 1 and one.endswith(suffix)]
    if len(members) != 1:
        problem = f"it has {len(members)} files {name} instead of one"
        raise _build_wheel_error(PurePath(archive.filename or ""), problem)
    return members[0]


def read_wheel_metadata(wheel: Path) -> str:
    """Return the text of a wheel's METADATA. Raises `BadArtifactError` if METADATA is missing."""
    with open_wheel(wheel) as archive:
        return archive.read(find_dist_info_file(archive, "METADATA")).decode("utf-8")


def require_member_digest(member: ZipInfo, recorded: Mapping[str, str], wheel: PurePath) -> str:
    """Return a member's digest in RECORD; raise if a member that needs a digest has none."""
    name = member.filename
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name:
        raise _build_wheel_error(wheel, f"its member {name} would be extracted outside the target")
    if member.is_dir() or name.endswith((".dist-info/RECORD", "RECORD.jws", "RECORD.p7s")):
        return ""
    if not recorded.get(name, "").startswith("sha256="):
        raise _build_wheel_error(wheel, f"RECORD has no sha256 for its member {name}")
    return recorded[name]


def build_member_error(name: str, wheel: PurePath) -> BadArtifactError:
    """Return the error for a member whose content does not match RECORD."""
    return _build_wheel_error(wheel, f"its member {name} does not match RECORD")


def hash_member(archive: ZipFile, member: ZipInfo) -> str:
    """Return the sha256 of the content of a member, in the notation of RECORD."""
    with archive.open(member) as stream:
        return copy_and_hash(stream, None)


def copy_and_hash(source: IO[bytes], target: IO[bytes] | None) -> str:
    """Copy `source` to `target`, if any. Return the sha256 in the notation of RECORD."""
    digest = hashlib.sha256()
    while chunk := source.read(_READ_CHUNK):
        digest.update(chunk)
        if target:
            target.write(chunk)
    return wheel_record.encode_digest(digest.digest())


def _build_wheel_error(wheel: PurePath, what: str) -> BadArtifactError:
    problem = f"the wheel cannot be used: {what}"
    hint = "remove the wheel and run the same command again"
    return BadArtifactError(problem, location=str(wheel), hint=hint)
