"""The sections of a library, by name and place: ELF, Windows' PE, and archives of ELF objects.

Only what CUDA is made for: 64 bits, the low byte first. A file of another kind has no sections.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass

BinaryData = mmap.mmap | bytes

_ELF64_MAGIC, _PE_MAGIC, _ARCHIVE_MAGIC = b"\x7fELF\x02\x01", b"MZ", b"!<arch>\n"
_ELF_TABLE = struct.Struct("<40xQ10xHHH")  # where the table is, an entry's size, how many, names
_ELF_ENTRY = struct.Struct("<II16xQQ")  # name, type, place, size
_ELF_EMPTY = 8  # SHT_NOBITS: it takes no room in the file
_MEMBER_HEADER_SIZE = 60  # the size of a member's header, ar(5)
_PE_ENTRY = struct.Struct("<8s8xII")  # name, size in the file, place


@dataclass(frozen=True)
class Section:
    """A named part of a file: where it begins in it, and how many bytes it has."""

    name: str
    start: int
    size: int


def read_sections(data: BinaryData) -> Iterator[Section]:
    """Those of a file, in its order. Raises `ValueError` or `struct.error` where it is damaged."""
    if data[: len(_ELF64_MAGIC)] == _ELF64_MAGIC:
        yield from _read_elf_sections(data, 0)
    elif data[: len(_PE_MAGIC)] == _PE_MAGIC:
        yield from _read_pe_sections(data)
    elif data[: len(_ARCHIVE_MAGIC)] == _ARCHIVE_MAGIC:
        yield from _read_archive_sections(data)


def _read_elf_sections(data: BinaryData, begin: int) -> Iterator[Section]:
    """https://refspecs.linuxfoundation.org/elf/gabi4+/ch4.sheader.html"""
    table, step, count, names = _ELF_TABLE.unpack_from(data, begin)
    if not table:
        return
    entries = [
        _ELF_ENTRY.unpack_from(data, begin + table + step * number)
        for number in range(count or _read_section_count(data, begin + table))
    ]
    texts = begin + entries[names][2] if names < len(entries) else 0
    for name, kind, place, size in entries:
        if kind != _ELF_EMPTY:
            yield Section(_read_c_string(data, texts + name), begin + place, size)


def _read_section_count(data: BinaryData, table: int) -> int:
    """How many there are where that is more than the header has room for."""
    return int(_ELF_ENTRY.unpack_from(data, table)[3])


def _read_c_string(data: BinaryData, at: int) -> str:
    return bytes(data[at : max(at, data.find(b"\0", at))]).decode("ascii", "replace")


def _read_pe_sections(data: BinaryData) -> Iterator[Section]:
    """https://learn.microsoft.com/windows/win32/debug/pe-format"""
    (at,) = struct.unpack_from("<I", data, 0x3C)
    if data[at : at + 4] != b"PE\0\0":
        return
    count, optional = struct.unpack_from("<6xH12xH", data, at)
    for number in range(count):
        name, size, place = _PE_ENTRY.unpack_from(data, at + 24 + optional + 40 * number)
        yield Section(name.rstrip(b"\0").decode("ascii", "replace"), place, size)


def _read_archive_sections(data: BinaryData) -> Iterator[Section]:
    at = len(_ARCHIVE_MAGIC)
    while at + _MEMBER_HEADER_SIZE <= len(data):
        size = int(data[at + 48 : at + 58])
        at += _MEMBER_HEADER_SIZE
        if data[at : at + len(_ELF64_MAGIC)] == _ELF64_MAGIC:
            yield from _read_elf_sections(data, at)
        at += size + size % 2
