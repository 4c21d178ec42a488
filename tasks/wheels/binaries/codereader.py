"""What reads machine code here: a cuobjdump, or the headers of the library itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tasks.wheels.binaries import fatbin, machinecode
from tasks.wheels.binaries.machinecode import Images


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
