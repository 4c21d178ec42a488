"""Which archs a library holds code for, read from its own headers: there need be no cuobjdump.

nvcc puts device code into sections of its own (CUDA's fatbinary_section.h names them; Windows keeps
eight letters of a name). In them lie containers, and in those an image for each arch, with a header
before it that is never compressed. NVIDIA documents none of this: it was found in what nvcc 12.4 to
13.2 made, and a test compares it with what cuobjdump lists. They differ in one thing: cuobjdump (up
to 13.5, the newest that was tried) leaves the f of a family arch out where it lists cubins.
"""

from __future__ import annotations

import mmap
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath

from tasks.core.errors import BadArtifactError
from tasks.core.model import Arch
from tasks.wheels.binaries import sections
from tasks.wheels.binaries.machinecode import MachineCodeImages

_LINKED_SECTIONS = (".nv_fatbin", ".nv_fatb")
_RELOCATABLE_SECTIONS = ("__nv_relfatbin", "__nv_rel")  # of -rdc: it runs only once it is linked
_FATBIN_MAGIC = struct.pack("<I", 0xBA55ED50)
_CONTAINER_HEADER = struct.Struct(
    "<4sHHQ"
)  # magic, version, its own size, the size of what follows
_IMAGE_HEADER = struct.Struct(
    "<HHIQ12xI8xQ"
)  # kind, version, its own size, the image's, arch, flags
_FATBIN_VERSION = 1
_PTX_KIND, _CUBIN_KIND = 1, 2
_ARCH_SUFFIXES = {0: "", 0x100000: "a", 0x200000: "f"}


def has_device_code(library: PurePath) -> bool:
    """Whether there is device code in it, by the names of its sections alone."""
    with _open_library(library) as data:
        return any(
            part.name in (*_LINKED_SECTIONS, *_RELOCATABLE_SECTIONS)
            for part in sections.read_sections(data)
        )


def read_fatbin_images(library: PurePath) -> MachineCodeImages:
    """The images of a library, counted as cuobjdump does: of code that is still to be linked only
    where there is no other.

    Raises `BadArtifactError` where the file, or the form of what it holds, is not understood.
    """
    found = MachineCodeImages(Counter(), Counter())
    with _open_library(library) as data:
        parts = list(sections.read_sections(data))
        for names in (_LINKED_SECTIONS, _RELOCATABLE_SECTIONS):
            for part in parts:
                if part.name in names:
                    _count_images(found, data, part)
            if found.cubins or found.ptx:
                break
    return found


@contextmanager
def _open_library(library: PurePath) -> Iterator[mmap.mmap | bytes]:
    try:
        with Path(library).open("rb") as stream:
            if not Path(library).stat().st_size:
                yield b""
                return
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
                yield data
    except FileNotFoundError as error:
        raise BadArtifactError(
            "this library is not there",
            location=str(library),
            hint="doit build puts it back",
        ) from error
    except (struct.error, ValueError, OverflowError, OSError) as error:
        raise BadArtifactError(
            f"the machine code of this library cannot be read: {error}",
            location=str(library),
            hint="cuobjdump may know more of it: put one on PATH",
        ) from error


def _count_images(
    found: MachineCodeImages, data: mmap.mmap | bytes, part: sections.Section
) -> None:
    """Containers begin at multiples of eight, with nothing or with zeros between them."""
    at, end = part.start, part.start + part.size
    while 0 <= (at := data.find(_FATBIN_MAGIC, at, end)) <= end - _CONTAINER_HEADER.size:
        _, version, header, size = _CONTAINER_HEADER.unpack_from(data, at)
        first, at = at + header, at + header + size
        if version != _FATBIN_VERSION or header < _CONTAINER_HEADER.size or at > end:
            raise ValueError(f"a fatbin of version {version} that is not known here")
        for kind, arch in _iterate_images(data, first, at):
            if kind in (_CUBIN_KIND, _PTX_KIND):  # others are no code: LTO's own, and indexes
                (found.cubins if kind == _CUBIN_KIND else found.ptx)[arch] += 1


def _iterate_images(data: mmap.mmap | bytes, at: int, end: int) -> Iterator[tuple[int, Arch]]:
    while at < end:
        kind, _, header, size, number, flags = _IMAGE_HEADER.unpack_from(data, at)
        suffix = _ARCH_SUFFIXES.get(flags & sum(_ARCH_SUFFIXES))
        if header < _IMAGE_HEADER.size or suffix is None or at + header + size > end:
            raise ValueError(f"an image at {at} that is not known here")
        yield kind, Arch(number // 10, number % 10, suffix)
        at += header + size
