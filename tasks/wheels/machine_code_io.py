"""Read the GPU architectures for which a shared library has code, with or without cuobjdump."""

import mmap
import re
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePath
from typing import BinaryIO, cast

from tasks.core.errors import BadArtifactError, CommandFailedError
from tasks.core.model import Arch, Command
from tasks.knowledge.machine_code_rules import MachineCode
from tasks.system import shell
from tasks.wheels import dynamic_linkage_io
from tasks.wheels.dynamic_linkage_io import ELF_MAGIC

BinaryData = mmap.mmap | bytes
_Section = tuple[str, int, int]  # name, start and size in bytes

_PE_MAGIC, _ARCHIVE_MAGIC = b"MZ", b"!<arch>\n"
_MEMBER_HEADER_SIZE = 60  # bytes of the header of a member, see ar(5)
_PE_ENTRY = struct.Struct("<8s8xII")  # fields: name, size in the file, offset


def _read_sections(data: BinaryData) -> Iterator[_Section]:
    """Yield the sections of a file. Raises `ValueError` or `struct.error` for a damaged file."""
    if data[: len(ELF_MAGIC)] == ELF_MAGIC:
        yield from _read_elf_sections(cast("BinaryIO", data))  # mmap has all methods that are used
    elif data[: len(_PE_MAGIC)] == _PE_MAGIC:
        yield from _read_pe_sections(data)
    elif data[: len(_ARCHIVE_MAGIC)] == _ARCHIVE_MAGIC:
        offset = len(_ARCHIVE_MAGIC)
        while offset + _MEMBER_HEADER_SIZE <= len(data):
            size = int(data[offset + 48 : offset + 58])
            offset += _MEMBER_HEADER_SIZE
            if data[offset : offset + len(ELF_MAGIC)] == ELF_MAGIC:
                yield from _read_elf_sections(BytesIO(data[offset : offset + size]), offset)
            offset += size + size % 2


def _read_elf_sections(stream: BinaryIO, begin: int = 0) -> Iterator[_Section]:
    with dynamic_linkage_io.open_elf(stream) as elf:
        for section in elf.iter_sections():
            if section["sh_type"] != "SHT_NOBITS":  # a section without data in the file
                yield section.name, begin + section["sh_offset"], section["sh_size"]


def _read_pe_sections(data: BinaryData) -> Iterator[_Section]:
    # https://learn.microsoft.com/windows/win32/debug/pe-format
    (offset,) = struct.unpack_from("<I", data, 0x3C)
    if data[offset : offset + 4] != b"PE\0\0":
        return
    count, optional = struct.unpack_from("<6xH12xH", data, offset)
    for number in range(count):
        name, size, start = _PE_ENTRY.unpack_from(data, offset + 24 + optional + 40 * number)
        yield name.rstrip(b"\0").decode("ascii", "replace"), start, size


# `ELF file    1: libtorch_cuda.1.sm_75.cubin` and `PTX file    1: k.1.sm_90.ptx`
_CUOBJDUMP_LINE = re.compile(r"(?m)^(ELF|PTX) file\s+\d+: .*\b(sm_\d+[af]?)\.(?:cubin|ptx)\s*$")


@dataclass(frozen=True)
class MachineCodeImages:
    """The device code images in a library: the number of cubins and PTX images per architecture."""

    cubins: Counter[Arch]
    ptx: Counter[Arch]

    @property
    def code(self) -> MachineCode:
        """Return the architectures that have at least one image."""
        return MachineCode(frozenset(self.cubins), frozenset(self.ptx))

    @property
    def common_code(self) -> MachineCode:
        """Return the architectures with at least 25 % of the images of the most common one."""
        # libtorch_cuda of 2.15 has 476 images for each target, and 1 to 59 for some others (`9.0a`)
        least = max([*self.cubins.values(), *self.ptx.values()], default=0) / 4
        kinds = (self.cubins, self.ptx)
        return MachineCode(*(frozenset(a for a, n in kind.items() if n >= least) for kind in kinds))


def parse_cuobjdump_listing(listing: str) -> MachineCodeImages:
    """Return the images in the output of `cuobjdump -lelf -lptx`; skip all other lines."""
    entries = _CUOBJDUMP_LINE.findall(listing)
    return MachineCodeImages(
        cubins=Counter(Arch.parse_capability(sm) for kind, sm in entries if kind == "ELF"),
        ptx=Counter(Arch.parse_capability(sm) for kind, sm in entries if kind == "PTX"),
    )


_LINKED_SECTIONS = (".nv_fatbin", ".nv_fatb")
_RELOCATABLE_SECTIONS = ("__nv_relfatbin", "__nv_rel")  # code (-rdc) that needs device linking
_FATBIN_MAGIC = struct.pack("<I", 0xBA55ED50)
# Fields: magic number, version, header size, size of the content
_CONTAINER_HEADER = struct.Struct("<4sHHQ")
# Fields: kind, version, header size, image size, architecture, flags
_IMAGE_HEADER = struct.Struct("<HHIQ12xI8xQ")
_FATBIN_VERSION = 1
_PTX_KIND, _CUBIN_KIND = 1, 2
_ARCH_SUFFIXES = {0: "", 0x100000: "a", 0x200000: "f"}


def has_device_code(library: PurePath) -> bool:
    """Return True if a library has a section for device code. The section is not read."""
    names = (*_LINKED_SECTIONS, *_RELOCATABLE_SECTIONS)
    with _open_library(library) as data:
        return any(name in names for name, _, _ in _read_sections(data))


def read_fatbin_images(library: PurePath) -> MachineCodeImages:
    """Read the images of a library without cuobjdump; raise `BadArtifactError` if unreadable."""
    images = MachineCodeImages(Counter(), Counter())
    with _open_library(library) as data:
        sections = list(_read_sections(data))
        for names in (_LINKED_SECTIONS, _RELOCATABLE_SECTIONS):
            for name, start, size in sections:
                if name in names:
                    _count_images(images, data, start, start + size)
            if images.cubins or images.ptx:
                break
    return images


@contextmanager
def _open_library(library: PurePath) -> Iterator[BinaryData]:
    try:
        with Path(library).open("rb") as stream:
            if not Path(library).stat().st_size:  # mmap does not accept an empty file
                yield b""
                return
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
                yield data
    except FileNotFoundError as error:
        raise _build_missing_error(library) from error
    except (struct.error, ValueError, OverflowError, OSError) as error:
        message = f"the machine code of the library cannot be read: {error}"
        hint = "add cuobjdump to PATH; it may support this format"
        raise BadArtifactError(message, location=str(library), hint=hint) from error


def _build_missing_error(library: PurePath) -> BadArtifactError:
    hint = "run: doit build"
    return BadArtifactError("the library does not exist", location=str(library), hint=hint)


def _count_images(found: MachineCodeImages, data: BinaryData, offset: int, end: int) -> None:
    """Count the images from byte `offset` to `end`. Raises `ValueError` for unknown formats."""
    while 0 <= (offset := data.find(_FATBIN_MAGIC, offset, end)) <= end - _CONTAINER_HEADER.size:
        _, version, header, size = _CONTAINER_HEADER.unpack_from(data, offset)
        at, offset = offset + header, offset + header + size
        if version != _FATBIN_VERSION or header < _CONTAINER_HEADER.size or offset > end:
            raise ValueError(f"a fatbin of version {version} is damaged or unsupported")
        while at < offset:
            kind, _, header, size, number, flags = _IMAGE_HEADER.unpack_from(data, at)
            suffix = _ARCH_SUFFIXES.get(flags & sum(_ARCH_SUFFIXES))
            if header < _IMAGE_HEADER.size or suffix is None or at + header + size > offset:
                raise ValueError(f"the machine code at offset {at} is damaged or unsupported")
            if kind in (_CUBIN_KIND, _PTX_KIND):  # other kinds (LTO, indexes) are no machine code
                images = found.cubins if kind == _CUBIN_KIND else found.ptx
                images[Arch(number // 10, number % 10, suffix)] += 1
            at += header + size


@dataclass(frozen=True)
class MachineCodeReader:
    """A reader of device code. `cuobjdump` is the path of the tool, or "" to read without it."""

    cuobjdump: str = ""

    def read_images(self, library: PurePath) -> MachineCodeImages:
        """Return the images of a library. Raises `BadArtifactError` for an unreadable file."""
        if not self.cuobjdump:
            return read_fatbin_images(library)
        if not Path(library).is_file():
            raise _build_missing_error(library)
        argv = (self.cuobjdump, "-lelf", "-lptx", str(library))
        env, purpose = shell.build_host_env(), f"list the machine code of {library.name}"
        try:
            listing = shell.capture_output(Command(argv, env, purpose, timeout=600.0))
        except CommandFailedError as error:
            if "does not contain device code" not in error.output:
                hint = f"to see the output, run: {' '.join(argv)}"
                raise BadArtifactError(error.message, location=str(library), hint=hint) from error
            listing = ""
        return parse_cuobjdump_listing(listing)

    def __str__(self) -> str:
        return "cuobjdump" if self.cuobjdump else "its own headers"
