"""The machine code of torch and of each extension, against every target. It needs no GPU."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tasks.effects import machinecode
from tasks.effects.machinecode import Images
from tasks.errors import BadArtifactError
from tasks.knowledge import load
from tasks.stages.deps.job import Deps
from tasks.stages.extensions.job import Built
from tasks.stages.validate.checks import covering, joined
from tasks.stages.validate.job import Check, ValidateJob
from tasks.stages.wheel.job import Wheel

_TORCH_CUDA = {
    "linux": ("libtorch_cuda.so", "libtorch_cuda.a"),
    "windows": ("torch_cuda.dll", "torch_cuda.lib"),
}


def torch_code(job: ValidateJob, deps: Deps, wheel: Wheel) -> Check:
    """That of the library which holds torch's kernels; archs of single kernels do not count."""
    name = "machine_code"
    if wheel.cuda is None:
        return Check(name, "not run", "torch without CUDA")
    library = _torch_library(job, wheel)
    found = _images(job, deps, library, name)
    if isinstance(found, Check):
        return found
    knowledge = load(Path(job.knowledge))
    return covering(knowledge, name, found.common, job.targets, library.name, wheel.cuda)


def _torch_library(job: ValidateJob, wheel: Wheel) -> Path:
    folder = Path(wheel.prefix or wheel.folder) / "lib"
    places = [folder / name for name in _TORCH_CUDA.get(job.system, _TORCH_CUDA["linux"])]
    return next((place for place in places if place.is_file()), places[0])


def extension_code(job: ValidateJob, deps: Deps, built: Mapping[str, Built]) -> list[Check]:
    """One check an extension, over all of its libraries."""
    return [_extension(job, deps, extension) for extension in built.values()]


def _extension(job: ValidateJob, deps: Deps, extension: Built) -> Check:
    name = f"{extension.name}: machine code"
    if extension.status == "unreachable":
        return Check(name, "not run", "its source could not be reached")
    libraries = [Path(library) for library in extension.libraries]
    return joined(name, [_library(job, deps, library, name) for library in libraries])


def _library(job: ValidateJob, deps: Deps, library: Path, name: str) -> Check:
    found = _images(job, deps, library, name)
    if isinstance(found, Check):
        return found
    if not found.cubins and not found.ptx:
        return Check(name, "not run", f"{library.name} holds no device code")
    maker = deps.toolkit.version if deps.toolkit else None
    knowledge = load(Path(job.knowledge))
    return covering(knowledge, name, found.code, job.targets, library.name, maker)


def _images(job: ValidateJob, deps: Deps, library: Path, name: str) -> Images | Check:
    """What the library holds, or the check that says why this is not known."""
    if not job.targets:
        return Check(name, "not run", "no GPU target: this profile builds for the CPU")
    if not deps.cuobjdump:
        return Check(name, "not run", "there is no cuobjdump here")
    try:
        return machinecode.images(deps.cuobjdump, library)
    except BadArtifactError as error:
        return Check(name, "failed", f"{error.where}: {error.what}", error.todo)
