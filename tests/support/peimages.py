"""DLLs of Windows with nothing in them but the names of what they need; no compiler makes them.

Layout: https://learn.microsoft.com/windows/win32/debug/pe-format.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

_ALIGNED = 0x200
_AT = 0x1000  # where the one section is in memory
_DIRECTORIES = 16
_IMPORT, _DELAYED = 1, 13


def dll(*needs: str, delayed: Sequence[str] = ()) -> bytes:
    """One that imports a function of each of `needs`, and when it is called of each `delayed`."""
    room = 20 * (len(needs) + 1) + 32 * (len(delayed) + 1)
    section = bytearray(room)
    tables: dict[int, tuple[int, int]] = {}
    for number, name in enumerate(needs):
        thunk, text = _import(section, name)
        struct.pack_into("<5I", section, 20 * number, thunk, 0, 0, text, thunk)
    tables[_IMPORT] = (_AT, 20 * (len(needs) + 1))
    start = 20 * (len(needs) + 1)
    for number, name in enumerate(delayed):
        thunk, text = _import(section, name)
        place = start + 32 * number
        struct.pack_into("<8I", section, place, 1, text, thunk, thunk, thunk, 0, 0, 0)
    if delayed:
        tables[_DELAYED] = (_AT + start, 32 * (len(delayed) + 1))
    return _image(bytes(section), tables)


def _import(section: bytearray, name: str) -> tuple[int, int]:
    """Where the table of functions and the name of a DLL are in memory, once they are added."""
    function = _added(section, b"\0\0one_function\0")
    thunk = _added(section, struct.pack("<2Q", function, 0))
    return thunk, _added(section, f"{name}\0".encode("ascii"))


def _added(section: bytearray, data: bytes) -> int:
    section.extend(b"\0" * (-len(section) % 8))
    place = _AT + len(section)
    section.extend(data)
    return place


def _image(section: bytes, tables: dict[int, tuple[int, int]]) -> bytes:
    size = len(section) + -len(section) % _ALIGNED
    dos = struct.pack("<2s58xI", b"MZ", 64)
    header = struct.pack("<4s2H3I2H", b"PE\0\0", 0x8664, 1, 0, 0, 0, 112 + 8 * _DIRECTORIES, 0x2022)
    optional = struct.pack(
        "<H2B5IQ2I6H4I2H4Q2I",
        *(0x20B, 14, 0, 0, size, 0, 0, _AT, 0x180000000, 0x1000, _ALIGNED),
        *(6, 0, 0, 0, 6, 0, 0, _AT + 0x1000, _ALIGNED, 0, 2, 0),
        *(0x100000, 0x1000, 0x100000, 0x1000, 0, _DIRECTORIES),
    )
    listed = b"".join(struct.pack("<2I", *tables.get(n, (0, 0))) for n in range(_DIRECTORIES))
    entry = struct.pack(
        "<8s6I2HI", b".rdata", len(section), _AT, size, _ALIGNED, 0, 0, 0, 0, 0x40000040
    )
    head = dos + header + optional + listed + entry
    return head.ljust(_ALIGNED, b"\0") + section.ljust(size, b"\0")
