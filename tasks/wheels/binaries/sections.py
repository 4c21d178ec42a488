"""The sections of a library, by name and place: ELF, Windows' PE, and archives of ELF objects.

Only what CUDA is made for: 64 bits, the low byte first. A file of another kind has no sections.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass

Data = mmap.mmap | bytes

_ELF, _PE, _ARCHIVE = b"\x7fELF\x02\x01", b"MZ", b"!<arch>\n"
_ELF_TABLE = struct.Struct("<40xQ10xHHH")  # where the table is, an entry's size, how many, names
_ELF_ENTRY = struct.Struct("<II16xQQ")  # name, type, place, size
_ELF_EMPTY = 8  # SHT_NOBITS: it takes no room in the file
_MEMBER = 60  # the size of a member's header, ar(5)
_PE_ENTRY = struct.Struct("<8s8xII")  # name, size in the file, place


@dataclass(frozen=True)
class Section:
    """A named part of a file: where it begins in it, and how many bytes it has."""

    name: str
    start: int
    size: int


def read(data: Data) -> Iterator[Section]:
    """Those of a file, in its order. Raises `ValueError` or `struct.error` where it is damaged."""
    if data[: len(_ELF)] == _ELF:
        yield from _elf(data, 0)
    elif data[: len(_PE)] == _PE:
        yield from _pe(data)
    elif data[: len(_ARCHIVE)] == _ARCHIVE:
        yield from _archive(data)


def _elf(data: Data, begin: int) -> Iterator[Section]:
    """https://refspecs.linuxfoundation.org/elf/gabi4+/ch4.sheader.html"""
    table, step, count, names = _ELF_TABLE.unpack_from(data, begin)
    if not table:
        return
    entries = [
        _ELF_ENTRY.unpack_from(data, begin + table + step * number)
        for number in range(count or _many(data, begin + table))
    ]
    texts = begin + entries[names][2] if names < len(entries) else 0
    for name, kind, place, size in entries:
        if kind != _ELF_EMPTY:
            yield Section(_text(data, texts + name), begin + place, size)


def _many(data: Data, table: int) -> int:
    """How many there are where that is more than the header has room for."""
    return int(_ELF_ENTRY.unpack_from(data, table)[3])


def _text(data: Data, at: int) -> str:
    return bytes(data[at : max(at, data.find(b"\0", at))]).decode("ascii", "replace")


def _pe(data: Data) -> Iterator[Section]:
    """https://learn.microsoft.com/windows/win32/debug/pe-format"""
    (at,) = struct.unpack_from("<I", data, 0x3C)
    if data[at : at + 4] != b"PE\0\0":
        return
    count, optional = struct.unpack_from("<6xH12xH", data, at)
    for number in range(count):
        name, size, place = _PE_ENTRY.unpack_from(data, at + 24 + optional + 40 * number)
        yield Section(name.rstrip(b"\0").decode("ascii", "replace"), place, size)


def _archive(data: Data) -> Iterator[Section]:
    at = len(_ARCHIVE)
    while at + _MEMBER <= len(data):
        size = int(data[at + 48 : at + 58])
        at += _MEMBER
        if data[at : at + len(_ELF)] == _ELF:
            yield from _elf(data, at)
        at += size + size % 2
