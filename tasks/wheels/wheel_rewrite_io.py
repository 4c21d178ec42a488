"""Rewrite wheels: compress them, add files to dist-info, change the version, update RECORD."""

import copy
import hashlib
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import IO
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from packaging.version import Version

from tasks.core.errors import BadArtifactError
from tasks.system import files
from tasks.wheels import wheel_archive_io, wheel_record
from tasks.wheels.wheel_record import RecordRow

SIGNATURE_FILES = ("RECORD.jws", "RECORD.p7s")  # signatures of the old RECORD


def _list_replaced_members(archive: ZipFile, added: Iterable[str]) -> set[str]:
    """Return the members to replace or omit: RECORD, signatures and the files `added`."""
    listing = wheel_archive_io.find_dist_info_file(archive, "RECORD")
    info = listing.removesuffix("RECORD")
    return {listing, *(f"{info}{name}" for name in (*added, *SIGNATURE_FILES))}


def _write_dist_info(
    out: ZipFile, archive: ZipFile, added: Mapping[str, bytes], changed: Sequence[RecordRow] = ()
) -> Mapping[str, str]:
    """Write the files `added` and the new RECORD at the end of `out`. Return the RECORD digests.

    `changed` are the RECORD rows of members with new contents.
    """
    listing = wheel_archive_io.find_dist_info_file(archive, "RECORD")
    # The new members get the time and mode of RECORD
    info, template = listing.removesuffix("RECORD"), archive.getinfo(listing)
    replaced = {*_list_replaced_members(archive, added), *(row.path for row in changed)}
    new = [*changed]
    new += [_write_member(out, template, f"{info}{name}", added[name]) for name in sorted(added)]
    old_rows = wheel_record.parse_record(archive.read(listing).decode("utf-8"))
    rows = [*(row for row in old_rows if row.path not in replaced), *new, RecordRow(listing)]
    _write_member(out, template, listing, wheel_record.format_record(rows, "\n").encode())
    return {row.path: row.digest for row in rows}


def _write_member(out: ZipFile, like: ZipInfo, name: str, content: bytes) -> RecordRow:
    """Write a member with the time and mode of the member `like`, and return its RECORD row."""
    out.writestr(_build_member_info(like, ZIP_DEFLATED, name), content)
    digest = wheel_record.encode_digest(hashlib.sha256(content).digest())
    return RecordRow(name, digest, str(len(content)))


_LOCAL_HEADER = struct.Struct("<4s5H3L2H")  # precedes the data of each member
_COPY_CHUNK = 1 << 20
_ENCRYPTED_FLAG = 1
# The compressed members of the previous wheel by name and digest, each with its archive
_ReusableMember = tuple[ZipFile, ZipInfo]
_ReusableMembers = Mapping[tuple[str, str], _ReusableMember]


@dataclass(frozen=True)
class MemberReplacement:
    """The new content of a member, which `make` writes to a file.

    `digest` is its sha256 in the notation of RECORD, "" if unknown.
    """

    digest: str
    make: Callable[[], Path]


def is_uncompressed(wheel: PurePath) -> bool:
    """Return True if no member of a wheel is compressed."""
    try:
        with ZipFile(wheel) as archive:
            return all(m.compress_type == ZIP_STORED for m in archive.infolist())
    except BadZipFile:
        return False  # a later check reports the error


def compress_wheel(
    wheel: Path,
    before: Path | None,
    added: Mapping[str, bytes] | None = None,
    instead: Mapping[str, MemberReplacement] | None = None,
) -> Mapping[str, str]:
    """Compress `wheel` in place, atomically, and return the RECORD digests by path.

    Unchanged members are copied from `before`, the previous verified wheel. `added` are files to
    add to dist-info, and `instead` are new contents of members.
    """
    packed = wheel.with_name(f".{wheel.name}.part")
    previous = ZipFile(before) if before else nullcontext()
    with wheel_archive_io.open_wheel(wheel) as new, previous as old:
        recorded = wheel_archive_io.read_record(new)
        reusable: _ReusableMembers = dict(_list_reusable_members(old)) if old else {}
        with ZipFile(packed, "w", ZIP_DEFLATED) as out:
            replaced = _list_replaced_members(new, added or {}) if added or instead else set()
            rows: list[RecordRow] = []
            for member in new.infolist():
                if member.filename in replaced:
                    continue
                if replacement := (instead or {}).get(member.filename):
                    rows.append(_write_replacement(out, member, replacement, reusable))
                    continue
                digest = wheel_archive_io.require_member_digest(member, recorded, wheel)
                known = reusable.get((member.filename, digest))
                if not (known and _copy_raw_member(out, member, *known)):
                    _compress_member(out, member, new, digest, wheel)
            if replaced:
                recorded = dict(_write_dist_info(out, new, added or {}, rows))
    packed.replace(wheel)
    return recorded


def _list_reusable_members(archive: ZipFile) -> Iterator[tuple[tuple[str, str], _ReusableMember]]:
    try:
        recorded = wheel_archive_io.read_record(archive)
    except BadArtifactError:
        return
    for member in archive.infolist():
        digest, encrypted = recorded.get(member.filename), member.flag_bits & _ENCRYPTED_FLAG
        if digest and member.compress_type == ZIP_DEFLATED and not encrypted:
            yield (member.filename, digest), (archive, member)


def _copy_raw_member(out: ZipFile, member: ZipInfo, source: ZipFile, known: ZipInfo) -> bool:
    """Copy compressed data from `source` to `out`; return False if that is impossible."""
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
    while chunk := read.read(min(remaining, _COPY_CHUNK)):
        write.write(chunk)
        remaining -= len(chunk)
    if remaining:
        raise BadZipFile(f"member {known.filename} is truncated")
    # Update `out` as ZipFile does, which has no API to add compressed bytes
    out.filelist.append(info)
    out.NameToInfo[info.filename] = info
    out.start_dir = write.tell()
    return True


def _write_replacement(
    out: ZipFile, member: ZipInfo, other: MemberReplacement, reusable: _ReusableMembers
) -> RecordRow:
    if known := reusable.get((member.filename, other.digest)):
        source, old_member = known
        info = _build_member_info(member, old_member.compress_type)
        info.CRC, info.file_size = old_member.CRC, old_member.file_size
        if _copy_raw_member(out, info, source, old_member):
            return RecordRow(member.filename, other.digest, str(info.file_size))
    path = other.make()
    info = _build_member_info(member, ZIP_DEFLATED)
    info.file_size = path.stat().st_size
    with path.open("rb") as content:
        digest = _write_stream(out, info, content)
    path.unlink()
    return RecordRow(member.filename, digest, str(info.file_size))


def _write_stream(out: ZipFile, info: ZipInfo, source: IO[bytes]) -> str:
    """Write a member and return its digest."""
    mode = info.external_attr
    with out.open(info, "w") as target:
        digest = wheel_archive_io.copy_and_hash(source, target)
    info.external_attr = mode
    return digest


def _compress_member(out: ZipFile, member: ZipInfo, new: ZipFile, digest: str, wheel: Path) -> None:
    if member.compress_type == ZIP_DEFLATED:
        if digest and wheel_archive_io.hash_member(new, member) != digest:
            raise wheel_archive_io.build_member_error(member.filename, wheel)
        if _copy_raw_member(out, member, new, member):
            return
    compression = ZIP_STORED if member.is_dir() else ZIP_DEFLATED
    with new.open(member) as source:
        actual_digest = _write_stream(out, _build_member_info(member, compression), source)
    if digest and actual_digest != digest:
        raise wheel_archive_io.build_member_error(member.filename, wheel)


def _build_member_info(member: ZipInfo, compression: int, name: str = "") -> ZipInfo:
    info = ZipInfo(name or member.filename, member.date_time)
    info.external_attr, info.create_system = member.external_attr, member.create_system
    info.compress_type = compression
    info.file_size = member.file_size
    return info


def add_dist_info_files(wheel: Path, added: Mapping[str, bytes]) -> None:
    """Add files to the dist-info of `wheel`, atomically. `added` maps names to contents."""
    packed = wheel.with_name(f".{wheel.name}.part")
    with wheel_archive_io.open_wheel(wheel) as archive, ZipFile(packed, "w", ZIP_DEFLATED) as out:
        replaced = _list_replaced_members(archive, added)
        for member in archive.infolist():
            keep = member.filename not in replaced
            if keep and not _copy_raw_member(out, member, archive, member):
                raise wheel_archive_io.build_member_error(member.filename, wheel)
        _write_dist_info(out, archive, added)
    files.replace_path(packed, wheel)


_VERSION_LINE = re.compile(rb"^Version:[ \t]*(\S+)[ \t]*$", re.MULTILINE)


def relabel_wheel(wheel: Path, label: str) -> Path:
    """Append `label` ("torch2.15.0.cpu") to the version of a wheel; return the new path."""
    with wheel_archive_io.open_wheel(wheel) as archive:
        place = wheel_archive_io.find_dist_info_file(archive, "METADATA")
        listing = wheel_archive_io.find_dist_info_file(archive, "RECORD")
        metadata = archive.read(place)
        line = _VERSION_LINE.search(metadata)
        if not line:
            raise wheel_archive_io.build_member_error(place, wheel)
        old = Version(line[1].decode())
        version = f"{old.public}+{'.'.join(filter(None, (old.local, label)))}"
        new_metadata = metadata[: line.start(1)] + version.encode() + metadata[line.end(1) :]
        name, _, tags = wheel.name.split("-", 2)
        labelled_wheel = wheel.with_name(f"{name}-{version}-{tags}")
        with ZipFile(labelled_wheel, "w", ZIP_DEFLATED) as out:
            for member in archive.infolist():
                renamed = copy.copy(member)
                renamed.filename = _rename_member(member.filename, version)
                if member.filename == place:
                    row = _write_member(out, member, renamed.filename, new_metadata)
                elif member.filename == listing or member.filename.endswith(SIGNATURE_FILES):
                    continue
                elif not _copy_raw_member(out, renamed, archive, member):
                    raise wheel_archive_io.build_member_error(member.filename, wheel)
            rows = wheel_record.parse_record(archive.read(listing).decode("utf-8"))
            unchanged_rows = [
                one._replace(path=_rename_member(one.path, version))
                for one in rows
                if one.path != place and not one.path.endswith(SIGNATURE_FILES)
            ]
            text = wheel_record.format_record([*unchanged_rows, row], "\n")
            record = archive.getinfo(listing)
            _write_member(out, record, _rename_member(listing, version), text.encode())
    wheel.unlink()
    return labelled_wheel


def _rename_member(path: str, version: str) -> str:
    """Replace the version in the name of a `.dist-info` or `.data` directory in `path`."""
    return re.sub(r"^([^-/]*)[^/]*(\.dist-info|\.data)/", rf"\g<1>-{version}\g<2>/", path)
