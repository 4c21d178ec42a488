"""Rewrite wheels: compress them, add files to dist-info, change the version, update RECORD."""

import copy
import hashlib
import re
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import IO

from packaging.version import Version

from tasks.core.errors import BadArtifactError
from tasks.system import files
from tasks.wheels import wheel_archive_io, wheel_record
from tasks.wheels.wheel_record import RecordRow

SIGNATURE_FILES = ("RECORD.jws", "RECORD.p7s")  # signatures of the old RECORD


def list_replaced_members(archive: zipfile.ZipFile, added: Mapping[str, bytes]) -> frozenset[str]:
    """Return the members of a wheel that must not be copied before `write_dist_info`."""
    if not added:
        return frozenset()
    listing = wheel_archive_io.find_dist_info_file(archive, "RECORD")
    info = listing.removesuffix("RECORD")
    return frozenset({listing, *(f"{info}{name}" for name in (*added, *SIGNATURE_FILES))})


def write_dist_info(
    out: zipfile.ZipFile,
    archive: zipfile.ZipFile,
    added: Mapping[str, bytes],
    changed: Sequence[RecordRow] = (),
) -> Mapping[str, str]:
    """Write `added` and an updated RECORD as the last members of `out`.

    The new members get the time and the mode of RECORD in `archive`. `changed` are the new rows of
    members whose content differs from `archive`. Returns the digests in the new RECORD by path.
    """
    listing = wheel_archive_io.find_dist_info_file(archive, "RECORD")
    info, template = listing.removesuffix("RECORD"), archive.getinfo(listing)
    replaced = {*list_replaced_members(archive, added), *(row.path for row in changed)}
    new = [*changed]
    new += [write_member(out, template, f"{info}{name}", added[name]) for name in sorted(added)]
    old_rows = wheel_record.parse_record(archive.read(listing).decode("utf-8"))
    rows = [*(row for row in old_rows if row.path not in replaced), *new, RecordRow(listing)]
    write_member(out, template, listing, wheel_record.format_record(rows, "\n").encode())
    return {row.path: row.digest for row in rows}


def write_member(
    out: zipfile.ZipFile, like: zipfile.ZipInfo, name: str, content: bytes
) -> RecordRow:
    """Write a member with the time and mode of the member `like`; return the RECORD row."""
    out.writestr(_build_member_info(like, zipfile.ZIP_DEFLATED, name), content)
    digest = wheel_record.encode_digest(hashlib.sha256(content).digest())
    return RecordRow(name, digest, str(len(content)))


_LOCAL_HEADER = struct.Struct("<4s5H3L2H")  # precedes the data of each member
_COPY_CHUNK = 1 << 20
_ENCRYPTED_FLAG = 1


@dataclass(frozen=True)
class PreviousWheel:
    """The archive of the previous wheel, and the compressed members by name and digest."""

    archive: zipfile.ZipFile | None = None
    members: Mapping[tuple[str, str], zipfile.ZipInfo] = field(default_factory=dict)

    def copy_member(self, out: zipfile.ZipFile, member: zipfile.ZipInfo, digest: str) -> str | None:
        """Copy the compressed member to `out`; return the size, None if there is no such member."""
        found = self.members.get((member.filename, digest))
        if not (found and self.archive and copy_raw_member(out, member, self.archive, found)):
            return None
        return str(found.file_size)


@dataclass(frozen=True)
class MemberReplacement:
    """A new content of a member: `make` writes a temporary file, `digest` is "" if unknown."""

    digest: str
    make: Callable[[], Path]


def is_uncompressed(wheel: PurePath) -> bool:
    """Return True if no member of a wheel is compressed."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            return all(m.compress_type == zipfile.ZIP_STORED for m in archive.infolist())
    except zipfile.BadZipFile:
        return False  # a later check reports the error


def compress_wheel(
    wheel: Path,
    before: Path | None,
    added: Mapping[str, bytes] | None = None,
    instead: Mapping[str, MemberReplacement] | None = None,
) -> Mapping[str, str]:
    """Compress `wheel` in place, atomically; return the sha256 of all members by path.

    `before` is the previous, verified wheel, or None; unchanged members are copied from `before`,
    and all others are verified. Tags are not verified. Order, times and modes are kept. `added` are
    files to add to dist-info. `instead` maps members to replacements. Raises `BadArtifactError`.
    """
    packed = wheel.with_name(f".{wheel.name}.part")
    with wheel_archive_io.open_wheel(wheel) as new, _open_previous_wheel(before) as old:
        recorded = wheel_archive_io.read_record(new)
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as out:
            replaced = list_replaced_members(new, added or {})
            rows: list[RecordRow] = []
            for member in new.infolist():
                if member.filename in replaced:
                    continue
                if replacement := (instead or {}).get(member.filename):
                    rows.append(_replace_member(out, member, replacement, old))
                    continue
                digest = wheel_archive_io.require_member_digest(member, recorded, wheel)
                if old.copy_member(out, member, digest) is None:
                    _compress_member(out, member, new, digest, wheel)
            if added or rows:
                recorded = dict(write_dist_info(out, new, added or {}, rows))
    packed.replace(wheel)
    return recorded


@contextmanager
def _open_previous_wheel(before: Path | None) -> Iterator[PreviousWheel]:
    if before is None:
        yield PreviousWheel()
        return
    with zipfile.ZipFile(before) as archive:
        try:
            recorded = wheel_archive_io.read_record(archive)
        except BadArtifactError:
            recorded = {}
        members = {}
        for member in archive.infolist():
            digest = recorded.get(member.filename)
            encrypted = member.flag_bits & _ENCRYPTED_FLAG
            if digest and member.compress_type == zipfile.ZIP_DEFLATED and not encrypted:
                members[member.filename, digest] = member
        yield PreviousWheel(archive, members)


def copy_raw_member(
    out: zipfile.ZipFile, member: zipfile.ZipInfo, source: zipfile.ZipFile, known: zipfile.ZipInfo
) -> bool:
    """Copy the compressed bytes of `known` as `member`; return False if the content differs."""
    read, write = source.fp, out.fp
    if not (read and write) or (known.CRC, known.file_size) != (member.CRC, member.file_size):
        return False
    read.seek(known.header_offset)
    header = read.read(_LOCAL_HEADER.size)
    if len(header) < _LOCAL_HEADER.size or not header.startswith(b"PK\3\4"):
        return False
    *_, name, extra = _LOCAL_HEADER.unpack(header)
    read.seek(name + extra, 1)
    info = _build_member_info(member, known.compress_type)
    info.CRC, info.compress_size = known.CRC, known.compress_size
    info.header_offset = write.tell()
    write.write(info.FileHeader())
    remaining = known.compress_size
    while remaining:
        chunk = read.read(min(remaining, _COPY_CHUNK))
        if not chunk:
            raise zipfile.BadZipFile(f"member {known.filename} is truncated")
        write.write(chunk)
        remaining -= len(chunk)
    # Update `out` as ZipFile does, which has no API to add compressed bytes
    out.filelist.append(info)
    out.NameToInfo[info.filename] = info
    out.start_dir = write.tell()
    return True


def _replace_member(
    out: zipfile.ZipFile, member: zipfile.ZipInfo, other: MemberReplacement, old: PreviousWheel
) -> RecordRow:
    """Write a replacement as a member, copied from `old` if that contains the same content."""
    if old_member := old.members.get((member.filename, other.digest)):
        info = _build_member_info(member, old_member.compress_type)
        info.CRC, info.file_size = old_member.CRC, old_member.file_size
        if size := old.copy_member(out, info, other.digest):
            return RecordRow(member.filename, other.digest, size)
    path = other.make()
    info = _build_member_info(member, zipfile.ZIP_DEFLATED)
    info.file_size = path.stat().st_size
    with path.open("rb") as source:
        digest = _write_stream(out, info, source)
    path.unlink()
    return RecordRow(member.filename, digest, str(info.file_size))


def _write_stream(out: zipfile.ZipFile, info: zipfile.ZipInfo, source: IO[bytes]) -> str:
    """Write a member and return the digest; keep an external_attr of 0 despite ZipFile.open."""
    mode = info.external_attr
    with out.open(info, "w") as target:
        digest = wheel_archive_io.copy_and_hash(source, target)
    info.external_attr = mode
    return digest


def _compress_member(
    out: zipfile.ZipFile, member: zipfile.ZipInfo, new: zipfile.ZipFile, digest: str, wheel: Path
) -> None:
    if member.compress_type == zipfile.ZIP_DEFLATED:
        if digest and wheel_archive_io.hash_member(new, member) != digest:
            raise wheel_archive_io.build_member_error(member.filename, wheel)
        if copy_raw_member(out, member, new, member):
            return
    compression = zipfile.ZIP_STORED if member.is_dir() else zipfile.ZIP_DEFLATED
    with new.open(member) as source:
        actual_digest = _write_stream(out, _build_member_info(member, compression), source)
    if digest and actual_digest != digest:
        raise wheel_archive_io.build_member_error(member.filename, wheel)


def _build_member_info(
    member: zipfile.ZipInfo, compression: int, name: str = ""
) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name or member.filename, member.date_time)
    info.external_attr, info.create_system = member.external_attr, member.create_system
    info.compress_type = compression
    info.file_size = member.file_size
    return info


def add_dist_info_files(wheel: Path, added: Mapping[str, bytes]) -> None:
    """Add files to the dist-info of `wheel` in place, atomically.

    `added` maps names in dist-info to contents. Raises `BadArtifactError` for an invalid wheel.
    """
    packed = wheel.with_name(f".{wheel.name}.part")
    with (
        wheel_archive_io.open_wheel(wheel) as archive,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as out,
    ):
        replaced = list_replaced_members(archive, added)
        for member in archive.infolist():
            keep = member.filename not in replaced
            if keep and not copy_raw_member(out, member, archive, member):
                raise wheel_archive_io.build_member_error(member.filename, wheel)
        write_dist_info(out, archive, added)
    files.replace_path(packed, wheel)


_VERSION_LINE = re.compile(rb"^Version:[ \t]*(\S+)[ \t]*$", re.MULTILINE)


def relabel_wheel(wheel: Path, label: str) -> Path:
    """Append `label` ("torch2.15.0.cpu") to the version of a wheel; return the new path."""
    with wheel_archive_io.open_wheel(wheel) as archive:
        place = wheel_archive_io.find_dist_info_file(archive, "METADATA")
        metadata = archive.read(place)
        line = _VERSION_LINE.search(metadata)
        if not line:
            raise wheel_archive_io.build_member_error(place, wheel)
        version = append_version_label(line[1].decode(), label)
        new_metadata = metadata[: line.start(1)] + version.encode() + metadata[line.end(1) :]
        name, _, tags = wheel.name.split("-", 2)
        labelled_wheel = wheel.with_name(f"{name}-{version}-{tags}")
        _write_relabelled(archive, labelled_wheel, version, {place: new_metadata})
    wheel.unlink()
    return labelled_wheel


def append_version_label(version: str, label: str) -> str:
    """Return a version with a local label: `1.6.3` and `cpu` give `1.6.3+cpu`."""
    parsed = Version(version)
    return f"{parsed.public}+{'.'.join(filter(None, (parsed.local, label)))}"


def _write_relabelled(
    archive: zipfile.ZipFile, wheel: Path, version: str, changed: Mapping[str, bytes]
) -> None:
    new: list[RecordRow] = []
    listing = wheel_archive_io.find_dist_info_file(archive, "RECORD")
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as out:
        for member in archive.infolist():
            name = _rename_member(member.filename, version)
            if member.filename in changed:
                new.append(write_member(out, member, name, changed[member.filename]))
            elif member.filename != listing and not name.endswith(SIGNATURE_FILES):
                renamed = copy.copy(member)
                renamed.filename = name
                if not copy_raw_member(out, renamed, archive, member):
                    raise wheel_archive_io.build_member_error(member.filename, wheel)
        rows = wheel_record.parse_record(archive.read(listing).decode("utf-8"))
        unchanged_rows = [
            row._replace(path=_rename_member(row.path, version))
            for row in rows
            if row.path not in changed and not row.path.endswith(SIGNATURE_FILES)
        ]
        text = wheel_record.format_record([*unchanged_rows, *new], "\n")
        record = archive.getinfo(listing)
        write_member(out, record, _rename_member(listing, version), text.encode())


def _rename_member(path: str, version: str) -> str:
    """Return the path with `version` in the name of a `.dist-info` or `.data` directory."""
    folder, slash, rest = path.partition("/")
    for ending in (".dist-info", ".data"):
        if slash and folder.endswith(ending):
            return f"{folder.partition('-')[0]}-{version}{ending}/{rest}"
    return path
