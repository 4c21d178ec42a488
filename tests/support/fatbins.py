"""Libraries that hold device code, in miniature: the headers are real, the code behind them is not.

An image is written as its arch, `9.0a`, with +PTX where it is PTX.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

from tasks.core.model import Arch

_FLAGS = {"": 0x11, "a": 0x100011, "f": 0x1200011}


def fatbin(*images: str, header: int = 64) -> bytes:
    """One container with these images."""
    body = b"".join(_image(text, header) for text in images)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


def _image(text: str, header: int) -> bytes:
    arch = Arch.parse_capability(text.removesuffix("+PTX"))
    kind, code = (1, b"\x28\xb5\x2f\xfd") if text.endswith("+PTX") else (2, b"\x7fELF")
    code = code.ljust(24, b"\xaa")
    number = arch.major * 10 + arch.minor
    fields = (kind, 0x101, header, len(code), 0, 0, 8, 1, number, 0, 0, _FLAGS[arch.suffix])
    return struct.pack("<HHIQIIHHIIIQ", *fields).ljust(header, b"\0") + code


def elf(sections: Mapping[str, bytes]) -> bytes:
    """A shared library of these sections and of nothing else."""
    named = {"": b"", **sections, ".shstrtab": b""}
    names = b"\0".join(name.encode() for name in named) + b"\0"
    named[".shstrtab"] = names
    body, entries, at = b"", b"", 64
    for name, content in named.items():
        offset = names.index(name.encode() + b"\0")
        kind = 3 if name == ".shstrtab" else 1 if name else 0
        entries += struct.pack("<IIQQQQIIQQ", offset, kind, 0, 0, at, len(content), 0, 0, 8, 0)
        body, at = body + content, at + len(content)
    start = struct.pack("<16sHHI", b"\x7fELF\x02\x01\x01", 3, 62, 1)
    rest = struct.pack("<QQQIHHHHHH", 0, 0, at, 0, 64, 0, 0, 64, len(named), len(named) - 1)
    return start + rest + body + entries


def pe(sections: Mapping[str, bytes]) -> bytes:
    """A DLL of these sections; as in real ones, eight letters of a name are kept."""
    head = b"MZ".ljust(0x3C, b"\0") + struct.pack("<I", 0x40)
    head += b"PE\0\0" + struct.pack("<HHIIIHH", 0x8664, len(sections), 0, 0, 0, 0, 0x2022)
    at, entries = len(head) + 40 * len(sections), b""
    for name, content in sections.items():
        sizes = (len(content), 0x1000, len(content), at)
        entries += struct.pack("<8sIIII16x", name.encode()[:8], *sizes)
        at += len(content)
    return head + entries + b"".join(sections.values())


def archive(members: Iterable[bytes]) -> bytes:
    """A static library of these objects."""
    made = b"!<arch>\n"
    for content in members:
        made += b"x.o/".ljust(48) + str(len(content)).encode().ljust(10) + b"`\n"
        made += content + b"\n" * (len(content) % 2)
    return made


def library(path: Path, *images: str) -> Path:
    """A shared library of one container, or of none where there are no images."""
    path.parent.mkdir(parents=True, exist_ok=True)
    code = {".nv_fatbin": fatbin(*images)} if images else {}
    path.write_bytes(elf({".text": b"\xc3", **code}))
    return path
