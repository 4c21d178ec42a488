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
_IMAGE = re.compile(r"^(ELF|PTX) file\s+\d+: .*\b(sm_\d+[af]?)\.(?:cubin|ptx)\s*$", re.MULTILINE)
_NO_CODE = "does not contain device code"
_TIMEOUT = 600.0


@dataclass(frozen=True)
class Images:
    """How many images of each arch a library holds."""

    cubins: Counter[Arch]
    ptx: Counter[Arch]

    @property
    def code(self) -> MachineCode:
        """The archs without the numbers."""
        return MachineCode(frozenset(self.cubins), frozenset(self.ptx))

    @property
    def common(self) -> MachineCode:
        """The archs that have at least a quarter of the images that the most frequent one has.

        libtorch_cuda of 2.15 holds 476 images of each arch that it was built for, and 1 to 59 of
        others (`8.9`, `9.0a`), which are single kernels: a card that has only those runs nothing.
        """
        most = max([*self.cubins.values(), *self.ptx.values()], default=0)
        return MachineCode(
            frozenset(arch for arch, count in self.cubins.items() if count >= most / 4),
            frozenset(arch for arch, count in self.ptx.items() if count >= most / 4),
        )


def images(cuobjdump: str, library: PurePath) -> Images:
    """The images of a library, counted, by one run of cuobjdump."""
    if not Path(library).is_file():
        raise BadArtifactError(
            "this library is not there",
            where=str(library),
            todo="doit build puts it back",
        )
    argv = (cuobjdump, "-lelf", "-lptx", str(library))
    what = f"list the machine code of {library.name}"
    try:
        return parse(shell.capture(Command(argv, shell.host_env(), what, timeout=_TIMEOUT)))
    except CommandFailedError as error:
        if _NO_CODE in error.said:
            return parse("")
        raise BadArtifactError(
            error.what, where=str(library), todo=f"try it by hand: {' '.join(argv)}"
        ) from error


def parse(listing: str) -> Images:
    """What `cuobjdump -lelf -lptx` lists, one image a line; all else that it says is skipped."""
    found = _IMAGE.findall(listing)
    return Images(
        cubins=Counter(Arch.parse(sm) for kind, sm in found if kind == "ELF"),
        ptx=Counter(Arch.parse(sm) for kind, sm in found if kind == "PTX"),
    )
