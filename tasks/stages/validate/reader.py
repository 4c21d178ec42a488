"""Which cuobjdump there is to read machine code with."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from tasks.core.deps_model import DepsManifest
from tasks.stages.wheel.job import Wheel
from tasks.wheels.binaries.codereader import MachineCodeReader

_PROGRAM = "cuobjdump.exe" if sys.platform == "win32" else "cuobjdump"


def find_code_reader(deps: DepsManifest, wheel: Wheel) -> MachineCodeReader:
    """NVIDIA's program, of the toolkit, of torch's triton or of PATH, is asked before our own
    reading.
    """
    return MachineCodeReader(
        next((str(place) for place in _list_cuobjdump_paths(deps, wheel) if place.is_file()), "")
    )


def _list_cuobjdump_paths(deps: DepsManifest, wheel: Wheel) -> Iterator[Path]:
    if deps.cuobjdump:
        yield Path(deps.cuobjdump)
    yield Path(wheel.folder).parent / "triton" / "backends" / "nvidia" / "bin" / _PROGRAM
    if found := shutil.which(_PROGRAM):
        yield Path(found)
