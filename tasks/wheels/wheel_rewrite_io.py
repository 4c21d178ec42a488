"""Files that are put into the dist-info of a wheel while it is written, and RECORD, which lists
them.
"""

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

SIGNATURE_FILES = ("RECORD.jws", "RECORD.p7s")  # of another RECORD


def list_replaced_members(archive: zipfile.ZipFile, added: Mapping[str, bytes]) -> frozenset[str]:
    """The members of a wheel that `close` writes anew, or leaves out; `added` are named within
    dist-info.
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
    """Write `added`, and RECORD as that of `archive` with their rows, as the last members of `out`;
    they have RECORD's time and mode. `changed` are rows of members that `out` has in other bytes.
    Returns path → sha256 of everything in it.
    """
    listing = wheel_archive_io.find_dist_info_file(archive, "RECORD")
    info, like = listing.removesuffix("RECORD"), archive.getinfo(listing)
    gone = {*list_replaced_members(archive, added), *(row.path for row in changed)}
    new = [*changed]
    new += [write_member(out, like, f"{info}{name}", added[name]) for name in sorted(added)]
    listed = wheel_record.parse_record(archive.read(listing).decode("utf-8"))
    rows = [*(row for row in listed if row.path not in gone), *new, RecordRow(listing)]
    write_member(out, like, listing, wheel_record.format_record(rows, "\n").encode())
    return {row.path: row.digest for row in rows}


def write_member(
    out: zipfile.ZipFile, like: zipfile.ZipInfo, name: str, content: bytes
) -> RecordRow:
    """Write a member with the time and the mode of another; its row for RECORD."""
    info = zipfile.ZipInfo(name, like.date_time)
    info.external_attr, info.create_system = like.external_attr, like.create_system
    info.compress_type = zipfile.ZIP_DEFLATED
    out.writestr(info, content)
    return RecordRow(
        name, wheel_record.encode_digest(hashlib.sha256(content).digest()), str(len(content))
    )


_LOCAL_HEADER = struct.Struct("<4s5H3L2H")  # the header before each member's bytes
_COPY_CHUNK = 1 << 20
_ENCRYPTED_FLAG = 1


@dataclass(frozen=True)
class PreviousWheel:
    """The members of the wheel before that can be taken as they are: its archive, and the deflated
    ones by name and digest.
    """

    archive: zipfile.ZipFile | None = None
    members: Mapping[tuple[str, str], zipfile.ZipInfo] = field(default_factory=dict)


@dataclass(frozen=True)
class MemberReplacement:
    """What goes into a wheel in place of a member: the `digest` that it had the last time, "" for
    none, and what leaves it as a file, which is removed once it is in.
    """

    digest: str
    make: Callable[[], Path]


def is_uncompressed(wheel: PurePath) -> bool:
    """Whether nothing in it is compressed."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            return all(m.compress_type == zipfile.ZIP_STORED for m in archive.infolist())
    except zipfile.BadZipFile:
        return False  # the check that follows says what is wrong with it


def compress_wheel(
    wheel: Path,
    before: Path | None,
    added: Mapping[str, bytes] | None = None,
    instead: Mapping[str, MemberReplacement] | None = None,
) -> Mapping[str, str]:
    """Compress `wheel` where it lies, all or nothing; returns path → sha256 of everything inside.

    `before` is a wheel that was verified and has not changed since. What is not taken from it is
    verified on the way; so in the end nothing in `wheel` is left to verify but its tags. What is
    compressed already stays so. Order, times and modes stay; `added` are more files of dist-info,
    and `instead` goes in for members. Raises `BadArtifactError` naming the member that is wrong.
    """
    packed = wheel.with_name(f".{wheel.name}.part")
    with wheel_archive_io.open_wheel(wheel) as new, _open_previous_wheel(before) as old:
        recorded = wheel_archive_io.read_record(new)
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as out:
            gone = list_replaced_members(new, added or {})
            rows: list[RecordRow] = []
            for member in new.infolist():
                if member.filename in gone:
                    continue
                if other := (instead or {}).get(member.filename):
                    rows.append(_replace_member(out, member, other, old))
                    continue
                digest = wheel_archive_io.require_member_digest(member, recorded, wheel)
                known = old.members.get((member.filename, digest))
                if not (known and old.archive and copy_raw_member(out, member, old.archive, known)):
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
    """Copy the bytes of `known` as they lie in `source`, compressed or not, under the name of
    `member`; False where they are not where the archive says, or not of this content.
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
    # what ZipFile itself does after a member; it has no way in for bytes that are compressed
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
    """Put another file in a member's place, as `old` has it compressed where that is known."""
    known = old.members.get((member.filename, other.digest))
    if known and old.archive:
        like = _build_member_info(member, known.compress_type)
        like.CRC, like.file_size = known.CRC, known.file_size
        if copy_raw_member(out, like, old.archive, known):
            return RecordRow(member.filename, other.digest, str(known.file_size))
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
    form = zipfile.ZIP_STORED if member.is_dir() else zipfile.ZIP_DEFLATED
    info = _build_member_info(member, form)
    with new.open(member) as source, out.open(info, "w") as target:
        found = wheel_archive_io.copy_and_hash(source, target)
    info.external_attr = member.external_attr  # none became one on the way
    if digest and found != digest:
        raise wheel_archive_io.build_member_error(member.filename, wheel)


def _build_member_info(member: zipfile.ZipInfo, form: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(member.filename, member.date_time)
    info.external_attr = member.external_attr
    info.create_system = member.create_system
    info.compress_type = form
    info.file_size = member.file_size
    return info


def add_dist_info_files(wheel: Path, added: Mapping[str, bytes]) -> None:
    """Put `added`, named within dist-info, into `wheel` where it lies, all or nothing. Raises
    `BadArtifactError` where it is no wheel.
    """
    packed = wheel.with_name(f".{wheel.name}.part")
    with (
        wheel_archive_io.open_wheel(wheel) as archive,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as out,
    ):
        gone = list_replaced_members(archive, added)
        for member in archive.infolist():
            if member.filename not in gone and not copy_raw_member(out, member, archive, member):
                raise wheel_archive_io.build_member_error(member.filename, wheel)
        write_dist_info(out, archive, added)
    files.replace_path(packed, wheel)


_VERSION_LINE = re.compile(rb"^Version:[ \t]*(\S+)[ \t]*$", re.MULTILINE)


def relabel_wheel(wheel: Path, label: str) -> Path:
    """In place of `wheel`, and beside it, one whose version ends in `label` ("torch2.15.0.cpu").

    A local part that the project gave itself stays before it. Raises `BadArtifactError` where it is
    no wheel.
    """
    with wheel_archive_io.open_wheel(wheel) as archive:
        place = wheel_archive_io.find_dist_info_file(archive, "METADATA")
        metadata = archive.read(place)
        before = _VERSION_LINE.search(metadata)
        if not before:
            raise wheel_archive_io.build_member_error(place, wheel)
        version = append_version_label(before[1].decode(), label)
        told = metadata[: before.start(1)] + version.encode() + metadata[before.end(1) :]
        labelled_wheel = wheel.with_name(_replace_name_part(wheel.name, 1, version))
        _write_relabelled(archive, labelled_wheel, version, {place: told})
    wheel.unlink()
    return labelled_wheel


def append_version_label(version: str, label: str) -> str:
    """`1.6.3` and `torch2.15.0.cpu` → `1.6.3+torch2.15.0.cpu`."""
    found = Version(version)
    return f"{found.public}+{found.local}.{label}" if found.local else f"{found.public}+{label}"


def _replace_name_part(name: str, place: int, version: str) -> str:
    """`name` with the part between two hyphens that is a version put in: of a wheel's file name."""
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
        listed = wheel_record.parse_record(archive.read(record).decode("utf-8"))
        kept = [
            row._replace(path=_rename_member(row.path, version))
            for row in listed
            if row.path not in changed and not row.path.endswith(SIGNATURE_FILES)
        ]
        text = wheel_record.format_record([*kept, *new], "\n")
        write_member(out, record, _rename_member(record.filename, version), text.encode())


def _rename_member(path: str, version: str) -> str:
    """Where it lies now: `name-1.0.dist-info/…` and `name-1.0.data/…` are called after the
    version.
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
