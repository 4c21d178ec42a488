"""Check the machine code of a prebuilt wheel against every target before the wheel is installed.

Only the library with torch's kernels is unpacked and read. For the wheel of 2.14.1 that takes less
time than checking its digests.
"""

from __future__ import annotations

import shutil
from pathlib import Path, PurePosixPath

from tasks.core.errors import BadArtifactError, MissingCodeError
from tasks.core.model import Arch
from tasks.knowledge import load
from tasks.knowledge.archs import MachineCode
from tasks.knowledge.covers import covers
from tasks.stages.wheel.job import KERNELS, PrebuiltJob
from tasks.system import files
from tasks.system.voice import say, tick, warn
from tasks.wheels.binaries import fatbin
from tasks.wheels.files import wheelfile


def require_targets(job: PrebuiltJob, wheel: Path) -> None:
    """Raise `MissingCodeError` if a GPU of the targets cannot run the kernels of `wheel`.

    As in planning, the suffix of a target is ignored. A library in an unknown format is left to
    validate, with a warning.
    """
    if not job.targets:
        return
    try:
        code = _read_code(job, wheel)
    except BadArtifactError as error:
        warn(f"{wheel.name}: {error.what}; doit validate checks it again")
        return
    gpus = [Arch(target.major, target.minor) for target in job.targets]
    knowledge = load(Path(job.knowledge))
    missing = [gpu for gpu in gpus if not covers(knowledge, code, gpu, maker=job.cuda)]
    held = ", ".join(code.names)
    if missing:
        raise MissingCodeError(
            f"{wheel.name} holds machine code for {held or 'no GPU'} and none that runs on "
            f"{', '.join(map(str, missing))}; it was not installed",
            where=str(job.wheelhouse),
        )
    say(f"{wheel.name} holds machine code for {held}")


def _read_code(job: PrebuiltJob, wheel: Path) -> MachineCode:
    """Return the archs of most kernels, none for a wheel without CUDA."""
    names = [f"torch/lib/{name}" for name in KERNELS[job.system]]
    with wheelfile.opened(wheel) as archive:
        member = next((name for name in names if name in archive.namelist()), None)
        if member is None:
            return MachineCode(frozenset(), frozenset())
        tick(f"reading the machine code of {PurePosixPath(member).name}")
        folder = files.own(Path(job.landing) / "kernels")
        library = folder / PurePosixPath(member).name
        try:
            with archive.open(member) as packed, library.open("wb") as unpacked:
                shutil.copyfileobj(packed, unpacked, 1 << 20)
            return fatbin.images(library).common
        finally:
            files.remove_owned(folder)
