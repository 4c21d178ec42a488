"""Check the machine code of a prebuilt wheel against every target before the wheel is installed.

Only the library with torch's kernels is unpacked and read. For the wheel of 2.14.1 that takes less
time than checking its digests.
"""

from __future__ import annotations

import shutil
from pathlib import Path, PurePosixPath

from tasks.core.errors import BadArtifactError, MissingCodeError
from tasks.core.model import Arch
from tasks.knowledge import load_knowledge
from tasks.knowledge.archs import MachineCode
from tasks.knowledge.covers import can_run_code
from tasks.stages.wheel.job import KERNELS, PrebuiltJob
from tasks.system import files
from tasks.system.voice import print_line, print_warning, show_progress
from tasks.wheels.binaries import fatbin
from tasks.wheels.files import wheelfile


def require_target_code(job: PrebuiltJob, wheel: Path) -> None:
    """Raise `MissingCodeError` if a GPU of the targets cannot run the kernels of `wheel`.

    As in planning, the suffix of a target is ignored. A library in an unknown format is left to
    validate, with a warning.
    """
    if not job.targets:
        return
    try:
        code = _read_kernel_code(job, wheel)
    except BadArtifactError as error:
        print_warning(f"{wheel.name}: {error.message}; doit validate checks it again")
        return
    gpus = [Arch(target.major, target.minor) for target in job.targets]
    knowledge = load_knowledge(Path(job.knowledge))
    missing = [gpu for gpu in gpus if not can_run_code(knowledge, code, gpu, maker=job.cuda)]
    held = ", ".join(code.names)
    if missing:
        raise MissingCodeError(
            f"{wheel.name} holds machine code for {held or 'no GPU'} and none that runs on "
            f"{', '.join(map(str, missing))}; it was not installed",
            location=str(job.wheelhouse),
        )
    print_line(f"{wheel.name} holds machine code for {held}")


def _read_kernel_code(job: PrebuiltJob, wheel: Path) -> MachineCode:
    """Return the archs of most kernels, none for a wheel without CUDA."""
    names = [f"torch/lib/{name}" for name in KERNELS[job.system]]
    with wheelfile.open_wheel(wheel) as archive:
        member = next((name for name in names if name in archive.namelist()), None)
        if member is None:
            return MachineCode(frozenset(), frozenset())
        show_progress(f"reading the machine code of {PurePosixPath(member).name}")
        folder = files.create_owned_folder(Path(job.landing) / "kernels")
        library = folder / PurePosixPath(member).name
        try:
            with archive.open(member) as packed, library.open("wb") as unpacked:
                shutil.copyfileobj(packed, unpacked, 1 << 20)
            return fatbin.read_fatbin_images(library).common_code
        finally:
            files.remove_owned(folder)
