"""Rewrite wheels: compress them, add files to dist-info, change the version, update RECORD."""

from __future__ import annotations

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

SIGNATURE_FILES = ("RECORD.jws", "RECORD.p7s")  # they sign another RECORD


def list_replaced_members(archive: zipfile.ZipFile, added: Mapping[str, bytes]) -> frozenset[str]:
    """Return the members of a wheel that `write_dist_info` rewrites or omits.

    `added` are names relative to dist-info.
    """
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

    They get the time and the mode of RECORD in `archive`. `changed` are rows of members whose
    content differs in `out`. Returns the sha256 of all members by path.
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
    """Write a member with the time and the mode of another; return its row for RECORD."""
    info = zipfile.ZipInfo(name, like.date_time)
    info.external_attr, info.create_system = like.external_attr, like.create_system
    info.compress_type = zipfile.ZIP_DEFLATED
    out.writestr(info, content)
    return RecordRow(
        name, wheel_record.encode_digest(hashlib.sha256(content).digest()), str(len(content))
    )


_LOCAL_HEADER = struct.Struct("<4s5H3L2H")  # the header before the data of each member
_COPY_CHUNK = 1 << 20
_ENCRYPTED_FLAG = 1


@dataclass(frozen=True)
class PreviousWheel:
    """The reusable members of the previous wheel.

    These are its archive, and the deflated members by name and digest.
    """

    archive: zipfile.ZipFile | None = None
    members: Mapping[tuple[str, str], zipfile.ZipInfo] = field(default_factory=dict)


@dataclass(frozen=True)
class MemberReplacement:
    """A replacement for a member of a wheel.

    `digest` is its digest at the last time, "" if unknown. `make` creates it as a file, which is
    removed after it was added.
    """

    digest: str
    make: Callable[[], Path]


def is_uncompressed(wheel: PurePath) -> bool:
    """Return True if no member is compressed."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            return all(m.compress_type == zipfile.ZIP_STORED for m in archive.infolist())
    except zipfile.BadZipFile:
        return False  # the following check reports the error


def compress_wheel(
    wheel: Path,
    before: Path | None,
    added: Mapping[str, bytes] | None = None,
    instead: Mapping[str, MemberReplacement] | None = None,
) -> Mapping[str, str]:
    """Compress `wheel` in place, atomically; return the sha256 of all members by path.

    `before` is a wheel that was verified and has not changed since. Members that are not copied
    from it are verified during compression; only the tags remain to be verified. Compressed members
    stay compressed. Order, times and modes are kept. `added` are more files for dist-info,
    `instead` are replacements for members. Raises `BadArtifactError` with the name of the wrong
    member.
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
                old_member = old.members.get((member.filename, digest))
                if not (
                    old_member
                    and old.archive
                    and copy_raw_member(out, member, old.archive, old_member)
                ):
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
        yield PreviousWheel(archive, dict(_list_reusable_members(archive, recorded)))


def _list_reusable_members(
    archive: zipfile.ZipFile, recorded: Mapping[str, str]
) -> Iterator[tuple[tuple[str, str], zipfile.ZipInfo]]:
    for member in archive.infolist():
        deflated = member.compress_type == zipfile.ZIP_DEFLATED
        if deflated and not member.flag_bits & _ENCRYPTED_FLAG and recorded.get(member.filename):
            yield (member.filename, recorded[member.filename]), member


def copy_raw_member(
    out: zipfile.ZipFile, member: zipfile.ZipInfo, source: zipfile.ZipFile, known: zipfile.ZipInfo
) -> bool:
    """Copy the raw bytes of `known` in `source` as `member`, compressed or not.

    Returns False if they are not at the recorded offset or have another content.
    """
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
    _copy_bytes(read, write, known.compress_size)
    # as ZipFile does after a member; it has no API to add compressed bytes
    out.filelist.append(info)
    out.NameToInfo[info.filename] = info
    out.start_dir = write.tell()
    return True


def _copy_bytes(source: IO[bytes], target: IO[bytes], size: int) -> None:
    while size:
        chunk = source.read(min(size, _COPY_CHUNK))
        if not chunk:
            raise zipfile.BadZipFile("the wheel before it is cut off")
        target.write(chunk)
        size -= len(chunk)


def _replace_member(
    out: zipfile.ZipFile, member: zipfile.ZipInfo, other: MemberReplacement, old: PreviousWheel
) -> RecordRow:
    """Write another file as a member, copied compressed from `old` if `old` contains it."""
    old_member = old.members.get((member.filename, other.digest))
    if old_member and old.archive:
        target_member = _build_member_info(member, old_member.compress_type)
        target_member.CRC, target_member.file_size = old_member.CRC, old_member.file_size
        if copy_raw_member(out, target_member, old.archive, old_member):
            return RecordRow(member.filename, other.digest, str(old_member.file_size))
    path = other.make()
    info = _build_member_info(member, zipfile.ZIP_DEFLATED)
    info.file_size = path.stat().st_size
    with path.open("rb") as source, out.open(info, "w") as target:
        digest = wheel_archive_io.copy_and_hash(source, target)
    info.external_attr = member.external_attr
    path.unlink()
    return RecordRow(member.filename, digest, str(info.file_size))


def _compress_member(
    out: zipfile.ZipFile, member: zipfile.ZipInfo, new: zipfile.ZipFile, digest: str, wheel: Path
) -> None:
    if member.compress_type == zipfile.ZIP_DEFLATED:
        if digest and wheel_archive_io.hash_member(new, member) != digest:
            raise wheel_archive_io.build_member_error(member.filename, wheel)
        if copy_raw_member(out, member, new, member):
            return
    compression = zipfile.ZIP_STORED if member.is_dir() else zipfile.ZIP_DEFLATED
    info = _build_member_info(member, compression)
    with new.open(member) as source, out.open(info, "w") as target:
        actual_digest = wheel_archive_io.copy_and_hash(source, target)
    info.external_attr = member.external_attr  # ZipFile.open replaces an external_attr of 0
    if digest and actual_digest != digest:
        raise wheel_archive_io.build_member_error(member.filename, wheel)


def _build_member_info(member: zipfile.ZipInfo, form: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(member.filename, member.date_time)
    info.external_attr = member.external_attr
    info.create_system = member.create_system
    info.compress_type = form
    info.file_size = member.file_size
    return info


def add_dist_info_files(wheel: Path, added: Mapping[str, bytes]) -> None:
    """Add files to the dist-info of `wheel` in place, atomically.

    `added` are names relative to dist-info. Raises `BadArtifactError` if the file is not a wheel.
    """
    packed = wheel.with_name(f".{wheel.name}.part")
    with (
        wheel_archive_io.open_wheel(wheel) as archive,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as out,
    ):
        replaced = list_replaced_members(archive, added)
        for member in archive.infolist():
            if member.filename not in replaced and not copy_raw_member(
                out, member, archive, member
            ):
                raise wheel_archive_io.build_member_error(member.filename, wheel)
        write_dist_info(out, archive, added)
    files.replace_path(packed, wheel)


_VERSION_LINE = re.compile(rb"^Version:[ \t]*(\S+)[ \t]*$", re.MULTILINE)


def relabel_wheel(wheel: Path, label: str) -> Path:
    """Replace `wheel` by one whose version ends in `label` ("torch2.15.0.cpu"); return its path.

    A local version part from the project stays before the label. Raises `BadArtifactError` if the
    file is not a wheel.
    """
    with wheel_archive_io.open_wheel(wheel) as archive:
        place = wheel_archive_io.find_dist_info_file(archive, "METADATA")
        metadata = archive.read(place)
        version_line = _VERSION_LINE.search(metadata)
        if not version_line:
            raise wheel_archive_io.build_member_error(place, wheel)
        version = append_version_label(version_line[1].decode(), label)
        relabelled_metadata = (
            metadata[: version_line.start(1)] + version.encode() + metadata[version_line.end(1) :]
        )
        labelled_wheel = wheel.with_name(_replace_name_part(wheel.name, 1, version))
        _write_relabelled(archive, labelled_wheel, version, {place: relabelled_metadata})
    wheel.unlink()
    return labelled_wheel


def append_version_label(version: str, label: str) -> str:
    """Return the version with a label: `1.6.3` and `torch2.15.0.cpu` → `1.6.3+torch2.15.0.cpu`."""
    parsed_version = Version(version)
    return (
        f"{parsed_version.public}+{parsed_version.local}.{label}"
        if parsed_version.local
        else f"{parsed_version.public}+{label}"
    )


def _replace_name_part(name: str, place: int, version: str) -> str:
    """Return a wheel's file name with the version at that position replaced."""
    parts = name.split("-")
    return "-".join([*parts[:place], version, *parts[place + 1 :]])


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
            elif member.filename == listing:
                record = member
            elif not name.endswith(SIGNATURE_FILES) and not copy_raw_member(
                out, _copy_member_info(member, name), archive, member
            ):
                raise wheel_archive_io.build_member_error(member.filename, wheel)
        rows = wheel_record.parse_record(archive.read(record).decode("utf-8"))
        unchanged_rows = [
            row._replace(path=_rename_member(row.path, version))
            for row in rows
            if row.path not in changed and not row.path.endswith(SIGNATURE_FILES)
        ]
        text = wheel_record.format_record([*unchanged_rows, *new], "\n")
        write_member(out, record, _rename_member(record.filename, version), text.encode())


def _rename_member(path: str, version: str) -> str:
    """Return the path of a member under the new version.

    The directories `name-1.0.dist-info` and `name-1.0.data` contain the version.
    """
    folder, slash, rest = path.partition("/")
    for ending in (".dist-info", ".data"):
        if slash and folder.endswith(ending):
            return f"{folder.partition('-')[0]}-{version}{ending}/{rest}"
    return path


def _copy_member_info(member: zipfile.ZipInfo, name: str) -> zipfile.ZipInfo:
    other = copy.copy(member)
    other.filename = name
    return other
