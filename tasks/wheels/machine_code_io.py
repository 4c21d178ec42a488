"""Which archs a shared library holds code for: asked of cuobjdump, which needs no GPU.

Without cuobjdump the library is read directly. Which GPUs can run that code is decided in
`tasks.knowledge.machine_code_rules`.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath

from tasks.core.errors import BadArtifactError, CommandFailedError
from tasks.core.model import Arch, Command
from tasks.knowledge.machine_code_rules import MachineCode
from tasks.system import shell
from tasks.wheels import binary_sections

# `ELF file    1: libtorch_cuda.1.sm_75.cubin` and `PTX file    1: k.1.sm_90.ptx`
_CUOBJDUMP_LINE = re.compile(
    r"^(ELF|PTX) file\s+\d+: .*\b(sm_\d+[af]?)\.(?:cubin|ptx)\s*$", re.MULTILINE
)
_NO_DEVICE_CODE = "does not contain device code"
_CUOBJDUMP_TIMEOUT = 600.0


@dataclass(frozen=True)
class MachineCodeImages:
    """How many images of each arch a library holds."""

    cubins: Counter[Arch]
    ptx: Counter[Arch]

    @property
    def code(self) -> MachineCode:
        """The archs without the numbers."""
        return MachineCode(frozenset(self.cubins), frozenset(self.ptx))

    @property
    def common_code(self) -> MachineCode:
        """The archs that have at least a quarter of the images that the most frequent one has.

        libtorch_cuda of 2.15 holds 476 images of each arch that it was built for, and 1 to 59 of
        others (`8.9`, `9.0a`), which are single kernels: a card that has only those runs nothing.
        """
        most = max([*self.cubins.values(), *self.ptx.values()], default=0)
        return MachineCode(
            frozenset(arch for arch, count in self.cubins.items() if count >= most / 4),
            frozenset(arch for arch, count in self.ptx.items() if count >= most / 4),
        )


def read_cuobjdump_images(cuobjdump: str, library: PurePath) -> MachineCodeImages:
    """The images of a library, counted, by one run of cuobjdump."""
    if not Path(library).is_file():
        raise BadArtifactError(
            "this library is not there",
            location=str(library),
            hint="doit build puts it back",
        )
    argv = (cuobjdump, "-lelf", "-lptx", str(library))
    what = f"list the machine code of {library.name}"
    try:
        return parse_cuobjdump_listing(
            shell.capture_output(
                Command(argv, shell.build_host_env(), what, timeout=_CUOBJDUMP_TIMEOUT)
            )
        )
    except CommandFailedError as error:
        if _NO_DEVICE_CODE in error.output:
            return parse_cuobjdump_listing("")
        raise BadArtifactError(
            error.message, location=str(library), hint=f"try it by hand: {' '.join(argv)}"
        ) from error


def parse_cuobjdump_listing(listing: str) -> MachineCodeImages:
    """What `cuobjdump -lelf -lptx` lists, one image a line; all else that it says is skipped."""
    found = _CUOBJDUMP_LINE.findall(listing)
    return MachineCodeImages(
        cubins=Counter(Arch.parse_capability(sm) for kind, sm in found if kind == "ELF"),
        ptx=Counter(Arch.parse_capability(sm) for kind, sm in found if kind == "PTX"),
    )


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
            for part in binary_sections.read_sections(data)
        )


def read_fatbin_images(library: PurePath) -> MachineCodeImages:
    """The images of a library, counted as cuobjdump does: of code that is still to be linked only
    where there is no other.

    Raises `BadArtifactError` where the file, or the form of what it holds, is not understood.
    """
    found = MachineCodeImages(Counter(), Counter())
    with _open_library(library) as data:
        parts = list(binary_sections.read_sections(data))
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
    found: MachineCodeImages, data: mmap.mmap | bytes, part: binary_sections.Section
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


@dataclass(frozen=True)
class MachineCodeReader:
    """`cuobjdump` is its path, "" where there is none."""

    cuobjdump: str = ""

    def read_images(self, library: Path) -> MachineCodeImages:
        """What a library holds. Raises `BadArtifactError` where it cannot be read."""
        if self.cuobjdump:
            return read_cuobjdump_images(self.cuobjdump, library)
        return read_fatbin_images(library)

    def __str__(self) -> str:
        return "cuobjdump" if self.cuobjdump else "its own headers"
