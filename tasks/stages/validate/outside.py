"""The machine code of torch and of each extension, against every target. It needs no GPU.

Every library that holds any is read. Of torch's, the one with its kernels has to cover each target,
by code that is there for most of them: a card that has only single kernels runs nothing. What the
others lack is told and fails nothing, since even a good wheel lacks some of it: PyPI's 2.15.0 has
code for 7.5 throughout libtorch_cuda.so, and in one of the 33 kernels of libtorch_cuda_linalg.so.
Of an extension, each library has to cover each target.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tasks.core.deps_model import Deps
from tasks.core.errors import BadArtifactError
from tasks.core.model import Check, Status
from tasks.knowledge import Knowledge
from tasks.knowledge.covers import targets_of
from tasks.stages.extensions.job import Built
from tasks.stages.validate.checks import covering, joined
from tasks.stages.validate.job import ValidateJob
from tasks.stages.wheel.job import KERNELS, Wheel
from tasks.wheels.binaries import fatbin
from tasks.wheels.binaries.codereader import Reader
from tasks.wheels.binaries.machinecode import Images

_LIBRARY = re.compile(r"\.(so(\.\d+)*|dll|pyd)$", re.IGNORECASE)
_NO_TARGET = "no GPU target: this profile builds for the CPU"


@dataclass(frozen=True)
class Look:
    """What is looked at, and what with."""

    job: ValidateJob
    knowledge: Knowledge
    reader: Reader


def torch_code(look: Look, wheel: Wheel) -> Check:
    """One check over all libraries of torch."""
    name = "machine_code"
    if wheel.cuda is None:
        return Check(name, "not run", "torch without CUDA")
    if not look.job.targets:
        return Check(name, "not run", _NO_TARGET)
    kernels = _kernels(look.job, wheel)
    if not kernels.is_file():
        what = f"torch is for CUDA {wheel.cuda}, and there is no {kernels}"
        return Check(name, "failed", what, f"{look.job.again} installs it again")
    parts = [_library(look, kernels, name, wheel.cuda, most=True)]
    parts += [_beside(look, library, name, wheel.cuda) for library in _others(wheel, kernels)]
    return _by(look, joined(name, parts))


def extension_code(look: Look, deps: Deps, built: Mapping[str, Built]) -> list[Check]:
    """One check an extension, over all of its libraries."""
    return [_extension(look, deps, extension) for extension in built.values()]


def _kernels(job: ValidateJob, wheel: Wheel) -> Path:
    """The library with torch's kernels."""
    folder = Path(wheel.prefix or wheel.folder) / "lib"
    places = [folder / name for name in KERNELS[job.system]]
    return next((place for place in places if place.is_file()), places[0])


def _others(wheel: Wheel, kernels: Path) -> Iterator[Path]:
    """Those beside it that hold device code; one file that has two names counts once."""
    seen = {kernels.resolve()}
    for path in sorted(Path(wheel.prefix or wheel.folder).rglob("*")):
        if _LIBRARY.search(path.name) and path.is_file() and path.resolve() not in seen:
            seen.add(path.resolve())
            if _holds_code(path):
                yield path


def _holds_code(path: Path) -> bool:
    try:
        return fatbin.holds_code(path)
    except BadArtifactError:
        return True  # whoever reads it says what is wrong with it


def _extension(look: Look, deps: Deps, extension: Built) -> Check:
    name = f"{extension.name}: machine code"
    if extension.status == "unreachable":
        return Check(name, "not run", "its source could not be reached")
    if not look.job.targets:
        return Check(name, "not run", _NO_TARGET)
    maker = deps.toolkit.version if deps.toolkit else None
    libraries = [Path(library) for library in extension.libraries]
    found = joined(name, [_library(look, path, name, maker) for path in libraries])
    if found.status == "not run" and extension.needs_code:
        found = replace(found, status="failed", remedy=f"{look.job.again} builds it again")
    return _by(look, found)


def _library(
    look: Look, library: Path, name: str, maker: str | None, *, most: bool = False
) -> Check:
    """Whether it covers every target; with `most`, by archs that most of its kernels are for."""
    found = _images(look, library, name)
    if isinstance(found, Check):
        return found
    if not found.cubins and not found.ptx:
        status: Status = "failed" if most else "not run"
        return Check(name, status, f"{library.name} holds no device code")
    code = found.common if most else found.code
    targets = targets_of(library.name, look.job.targets)
    return covering(look.knowledge, name, code, targets, library.name, maker)


def _beside(look: Look, library: Path, name: str, maker: str) -> Check:
    """What a library of torch besides the kernels' holds; one that cannot be read has failed."""
    found = _images(look, library, name)
    if isinstance(found, Check):
        return found
    check = covering(look.knowledge, name, found.common, look.job.targets, library.name, maker)
    if check.status != "failed":
        return check
    return Check(name, "passed", f"{check.detail}, which a few functions alone need")


def _by(look: Look, check: Check) -> Check:
    """Who says so."""
    if check.status == "not run":
        return check
    return Check(
        check.name, check.status, f"{check.detail} (by {look.reader})", check.remedy, check.cause
    )


def _images(look: Look, library: Path, name: str) -> Images | Check:
    """What the library holds, or the check that says why this is not known."""
    try:
        return look.reader.images(library)
    except BadArtifactError as error:
        return Check(name, "failed", f"{error.where}: {error.what}", error.todo)
