"""What reads machine code here: a cuobjdump, or the headers of the library itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tasks.wheels.binaries import fatbin, machinecode
from tasks.wheels.binaries.machinecode import MachineCodeImages


@dataclass(frozen=True)
class MachineCodeReader:
    """`cuobjdump` is its path, "" where there is none."""

    cuobjdump: str = ""

    def read_images(self, library: Path) -> MachineCodeImages:
        """What a library holds. Raises `BadArtifactError` where it cannot be read."""
        if self.cuobjdump:
            return machinecode.read_cuobjdump_images(self.cuobjdump, library)
        return fatbin.read_fatbin_images(library)

    def __str__(self) -> str:
        return "cuobjdump" if self.cuobjdump else "its own headers"
