"""Which archs a shared library holds code for: asked of cuobjdump, which needs no GPU.

What a card can make of that code is not judged here but in `tasks.knowledge.covers`. Where there is
no cuobjdump, `tasks.wheels.binaries.fatbin` reads the library itself.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path, PurePath

from tasks.core.errors import BadArtifactError, CommandFailedError
from tasks.core.model import Arch, Command
from tasks.knowledge.archs import MachineCode
from tasks.system import shell

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
