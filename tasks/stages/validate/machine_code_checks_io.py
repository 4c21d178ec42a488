"""The machine code of torch and of each extension, against every target. It needs no GPU.

Every library that holds any is read. Of torch's, the one with its kernels has to cover each target,
by code that is there for most of them: a card that has only single kernels runs nothing. What the
others lack is told and fails nothing, since even a good wheel lacks some of it: PyPI's 2.15.0 has
code for 7.5 throughout libtorch_cuda.so, and in one of the 33 kernels of libtorch_cuda_linalg.so.
Of an extension, each library has to cover each target.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tasks.core.deps_model import DepsManifest
from tasks.core.errors import BadArtifactError
from tasks.core.model import CheckStatus, ValidationResult
from tasks.knowledge import Knowledge
from tasks.knowledge.machine_code_rules import select_library_targets
from tasks.stages.extensions.model import BuiltExtension
from tasks.stages.validate.check_results import check_coverage, combine_checks
from tasks.stages.validate.model import ValidateJob
from tasks.stages.wheel.model import KERNELS, Wheel
from tasks.wheels import machine_code_io
from tasks.wheels.machine_code_io import MachineCodeImages, MachineCodeReader

_LIBRARY_NAME = re.compile(r"\.(so(\.\d+)*|dll|pyd)$", re.IGNORECASE)
_NO_TARGET = "no GPU target: this profile builds for the CPU"


@dataclass(frozen=True)
class CodeCheckContext:
    """What is looked at, and what with."""

    job: ValidateJob
    knowledge: Knowledge
    reader: MachineCodeReader


def check_torch_code(look: CodeCheckContext, wheel: Wheel) -> ValidationResult:
    """One check over all libraries of torch."""
    name = "machine_code"
    if wheel.cuda is None:
        return ValidationResult(name, "not run", "torch without CUDA")
    if not look.job.targets:
        return ValidationResult(name, "not run", _NO_TARGET)
    kernels = _find_kernel_library(look.job, wheel)
    if not kernels.is_file():
        what = f"torch is for CUDA {wheel.cuda}, and there is no {kernels}"
        return ValidationResult(name, "failed", what, f"{look.job.build_command} installs it again")
    parts = [_check_library(look, kernels, name, wheel.cuda, most=True)]
    parts += [
        _check_secondary_library(look, library, name, wheel.cuda)
        for library in _list_other_libraries(wheel, kernels)
    ]
    return _add_reader_name(look, combine_checks(name, parts))


def check_extension_code(
    look: CodeCheckContext, deps: DepsManifest, built: Mapping[str, BuiltExtension]
) -> list[ValidationResult]:
    """One check an extension, over all of its libraries."""
    return [_check_extension(look, deps, extension) for extension in built.values()]


def _find_kernel_library(job: ValidateJob, wheel: Wheel) -> Path:
    """The library with torch's kernels."""
    folder = Path(wheel.prefix or wheel.folder) / "lib"
    places = [folder / name for name in KERNELS[job.system]]
    return next((place for place in places if place.is_file()), places[0])


def _list_other_libraries(wheel: Wheel, kernels: Path) -> Iterator[Path]:
    """Those beside it that hold device code; one file that has two names counts once."""
    seen = {kernels.resolve()}
    for path in sorted(Path(wheel.prefix or wheel.folder).rglob("*")):
        if _LIBRARY_NAME.search(path.name) and path.is_file() and path.resolve() not in seen:
            seen.add(path.resolve())
            if _has_device_code(path):
                yield path


def _has_device_code(path: Path) -> bool:
    try:
        return machine_code_io.has_device_code(path)
    except BadArtifactError:
        return True  # whoever reads it says what is wrong with it


def _check_extension(
    look: CodeCheckContext, deps: DepsManifest, extension: BuiltExtension
) -> ValidationResult:
    name = f"{extension.name}: machine code"
    if extension.status == "unreachable":
        return ValidationResult(name, "not run", "its source could not be reached")
    if not look.job.targets:
        return ValidationResult(name, "not run", _NO_TARGET)
    maker = deps.toolkit.version if deps.toolkit else None
    libraries = [Path(library) for library in extension.libraries]
    found = combine_checks(name, [_check_library(look, path, name, maker) for path in libraries])
    if found.status == "not run" and extension.needs_code:
        found = replace(found, status="failed", remedy=f"{look.job.build_command} builds it again")
    return _add_reader_name(look, found)


def _check_library(
    look: CodeCheckContext, library: Path, name: str, maker: str | None, *, most: bool = False
) -> ValidationResult:
    """Whether it covers every target; with `most`, by archs that most of its kernels are for."""
    found = _read_images(look, library, name)
    if isinstance(found, ValidationResult):
        return found
    if not found.cubins and not found.ptx:
        status: CheckStatus = "failed" if most else "not run"
        return ValidationResult(name, status, f"{library.name} holds no device code")
    code = found.common_code if most else found.code
    targets = select_library_targets(library.name, look.job.targets)
    return check_coverage(look.knowledge, name, code, targets, library.name, maker)


def _check_secondary_library(
    look: CodeCheckContext, library: Path, name: str, maker: str
) -> ValidationResult:
    """What a library of torch besides the kernels' holds; one that cannot be read has failed."""
    found = _read_images(look, library, name)
    if isinstance(found, ValidationResult):
        return found
    check = check_coverage(
        look.knowledge, name, found.common_code, look.job.targets, library.name, maker
    )
    if check.status != "failed":
        return check
    return ValidationResult(name, "passed", f"{check.detail}, which a few functions alone need")


def _add_reader_name(look: CodeCheckContext, check: ValidationResult) -> ValidationResult:
    """Who says so."""
    if check.status == "not run":
        return check
    return ValidationResult(
        check.name, check.status, f"{check.detail} (by {look.reader})", check.remedy, check.cause
    )


def _read_images(
    look: CodeCheckContext, library: Path, name: str
) -> MachineCodeImages | ValidationResult:
    """What the library holds, or the check that says why this is not known."""
    try:
        return look.reader.read_images(library)
    except BadArtifactError as error:
        return ValidationResult(name, "failed", f"{error.location}: {error.message}", error.hint)


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
