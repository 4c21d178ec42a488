"""What reads machine code here: a cuobjdump, or the headers of the library itself."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tasks.effects import fatbin, machinecode
from tasks.effects.machinecode import Images
from tasks.stages.deps.job import Deps
from tasks.stages.wheel.job import Wheel

_PROGRAM = "cuobjdump.exe" if sys.platform == "win32" else "cuobjdump"


@dataclass(frozen=True)
class Reader:
    """`cuobjdump` is its path, "" where there is none."""

    cuobjdump: str = ""

    def images(self, library: Path) -> Images:
        """What a library holds. Raises `BadArtifactError` where it cannot be read."""
        if self.cuobjdump:
            return machinecode.images(self.cuobjdump, library)
        return fatbin.images(library)

    def __str__(self) -> str:
        return "cuobjdump" if self.cuobjdump else "its own headers"


def reader(deps: Deps, wheel: Wheel) -> Reader:
    """NVIDIA's program, of the toolkit, of torch's triton or of PATH, is asked before our own
    reading.
    """
    return Reader(next((str(place) for place in _places(deps, wheel) if place.is_file()), ""))


def _places(deps: Deps, wheel: Wheel) -> Iterator[Path]:
    if deps.cuobjdump:
        yield Path(deps.cuobjdump)
    yield Path(wheel.folder).parent / "triton" / "backends" / "nvidia" / "bin" / _PROGRAM
    if found := shutil.which(_PROGRAM):
        yield Path(found)
