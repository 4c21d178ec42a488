"""A wheel that was packed without compression, compressed: what the wheel before it holds in the
same words is taken from there as it is.

Compressing takes most of the time that torch's wheel takes, and a change of one source file leaves
nearly all of it as it was. RECORD tells which members those are. Format of the archive:
https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, 4.3.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import IO

from tasks.core.errors import BadArtifactError
from tasks.wheels.files import distinfo, wheelfile
from tasks.wheels.files.recordfile import RecordRow

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
    with wheelfile.open_wheel(wheel) as new, _open_previous_wheel(before) as old:
        recorded = wheelfile.read_record(new)
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as out:
            gone = distinfo.list_replaced_members(new, added or {})
            rows: list[RecordRow] = []
            for member in new.infolist():
                if member.filename in gone:
                    continue
                if other := (instead or {}).get(member.filename):
                    rows.append(_replace_member(out, member, other, old))
                    continue
                digest = wheelfile.require_member_digest(member, recorded, wheel)
                known = old.members.get((member.filename, digest))
                if not (known and old.archive and copy_raw_member(out, member, old.archive, known)):
                    _compress_member(out, member, new, digest, wheel)
            if added or rows:
                recorded = dict(distinfo.write_dist_info(out, new, added or {}, rows))
    packed.replace(wheel)
    return recorded


@contextmanager
def _open_previous_wheel(before: Path | None) -> Iterator[PreviousWheel]:
    if before is None:
        yield PreviousWheel()
        return
    with zipfile.ZipFile(before) as archive:
        try:
            recorded = wheelfile.read_record(archive)
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
        digest = wheelfile.copy_and_hash(source, target)
    info.external_attr = member.external_attr
    path.unlink()
    return RecordRow(member.filename, digest, str(info.file_size))


def _compress_member(
    out: zipfile.ZipFile, member: zipfile.ZipInfo, new: zipfile.ZipFile, digest: str, wheel: Path
) -> None:
    if member.compress_type == zipfile.ZIP_DEFLATED:
        if digest and wheelfile.hash_member(new, member) != digest:
            raise wheelfile.build_member_error(member.filename, wheel)
        if copy_raw_member(out, member, new, member):
            return
    form = zipfile.ZIP_STORED if member.is_dir() else zipfile.ZIP_DEFLATED
    info = _build_member_info(member, form)
    with new.open(member) as source, out.open(info, "w") as target:
        found = wheelfile.copy_and_hash(source, target)
    info.external_attr = member.external_attr  # none became one on the way
    if digest and found != digest:
        raise wheelfile.build_member_error(member.filename, wheel)


def _build_member_info(member: zipfile.ZipInfo, form: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(member.filename, member.date_time)
    info.external_attr = member.external_attr
    info.create_system = member.create_system
    info.compress_type = form
    info.file_size = member.file_size
    return info
