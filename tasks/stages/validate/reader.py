"""Which cuobjdump there is to read machine code with."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from tasks.core.deps_model import Deps
from tasks.stages.wheel.job import Wheel
from tasks.wheels.binaries.codereader import Reader

_PROGRAM = "cuobjdump.exe" if sys.platform == "win32" else "cuobjdump"


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
