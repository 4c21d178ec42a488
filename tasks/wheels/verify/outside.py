"""What the libraries of a wheel need from outside, and whether its requirements bring it. Pure.

The wheel is taken for installed in a folder of its own, with nothing beside it but NVIDIA's
packages, and the rules of the loader say what is found there: what only this machine has counts for
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tasks.core.dependencies import applying
from tasks.core.model import Status
from tasks.wheels.linking.cudapackages import (
    Component,
    component,
    declared,
    is_in_its_folder,
    majors_of,
)
from tasks.wheels.linking.linkage import is_driver
from tasks.wheels.linking.loading import Loaded, Need, Search, load, order
from tasks.wheels.linking.values import Dlls, Linkage

_SITE = PurePosixPath("/site-packages")
_TORCH = re.compile(r"lib(torch|c10|shm|caffe2)(_\w+)?\.so")
_LOADER = re.compile(r"ld-linux[\w-]*\.so|ld64\.so")  # it is what loads all others


@dataclass(frozen=True)
class Surroundings:
    """What another machine has beside the wheel: its `requires`, the names that every Linux of
    manylinux has (None where nobody here can tell), and torch, where it was built `against` one.
    `windows` are the DLLs that come with it there, `is_torch` whether the wheel is torch itself.
    `cuda` are the majors that the libraries ask for, as far as their names tell.
    """

    requires: Sequence[Requirement]
    system: Collection[str] | None
    against: str = ""
    windows: Dlls | None = None
    is_torch: bool = False
    cuda: frozenset[int] = frozenset()

    @property
    def asks_for_runtime(self) -> bool:
        """torch asks for the Visual C++ redistributable when it is imported."""
        return self.is_torch or has_torch(self)


@dataclass(frozen=True)
class Outside:
    """A library that is not in the wheel, who needs it, and by whom it comes."""

    name: str
    users: tuple[str, ...]
    status: Status
    by: str


def outside(held: Mapping[str, Linkage], beside: Surroundings) -> list[Outside]:
    """What the libraries `held` by a wheel need that it does not hold, sorted by name."""
    machine = next((one.machine for one in held.values()), "")
    ours = {str(_SITE / name): linkage for name, linkage in held.items()}

    def look(place: str) -> Linkage | None:
        return ours.get(place) or (Linkage(machine) if _is_nvidias(PurePosixPath(place)) else None)

    libraries = [Loaded(str(_SITE / name), held[name]) for name in order(held)]
    needs = load(libraries, Search((), {}, (), look))
    open_needs = [need for need in needs if need.library in ours and need.place not in ours]
    found: dict[str, list[Need]] = {}
    for need in open_needs:
        found.setdefault(need.name, []).append(need)
    cuda = frozenset(major for name in found for major in majors_of(name))
    beside = replace(beside, requires=applying(beside.requires, "linux", machine), cuda=cuda)
    inside = {PurePosixPath(name).name for name in held} | {one.soname for one in held.values()}
    return [_judged(name, found[name], inside, beside) for name in sorted(found)]


def _judged(
    name: str, needs: Sequence[Need], inside: Collection[str], beside: Surroundings
) -> Outside:
    users = tuple(PurePosixPath(need.library).name for need in needs)
    reached = all(need.place for need in needs)
    status, by = _brought(name, beside, inside=name in inside, reached=reached)
    return Outside(name, users, status, by)


def _brought(name: str, beside: Surroundings, *, inside: bool, reached: bool) -> tuple[Status, str]:
    if inside:
        return "failed", "it is in the wheel, and no RPATH leads there"
    if is_driver(name):
        return "passed", "the driver"
    if package := component(name):
        majors = majors_of(name) or beside.cuda
        return _by_nvidia(package, beside, majors, reached=reached)
    if _TORCH.match(name) and has_torch(beside):
        return "passed", torch_of(beside)
    return _of_system(name, beside)


def _of_system(name: str, beside: Surroundings) -> tuple[Status, str]:
    if _LOADER.match(name) or name in (beside.system or ()):
        return "passed", "every Linux of manylinux"
    if beside.system is None:
        return "not run", "auditwheel, which knows what every Linux has, is not installed"
    return "failed", "no requirement brings it, and not every Linux has it"


def _by_nvidia(
    package: Component, beside: Surroundings, majors: Collection[int], *, reached: bool
) -> tuple[Status, str]:
    by = declared(package, beside.requires, majors)
    if by and reached:
        return "passed", by
    if has_torch(beside):  # which is imported first, and has loaded them
        return "passed", f"what comes with {torch_of(beside)}"
    if by:
        return "failed", f"{by} has it, and no RPATH leads to $ORIGIN/…/nvidia/…/lib"
    names = {package.distribution(major) for major in majors} or {f"nvidia-{package.name}"}
    named = " or ".join(sorted(names))
    return "failed", f"{named} has it, and Requires-Dist does not name that"


def has_torch(beside: Surroundings) -> bool:
    """Whether torch is there, and has loaded its libraries before."""
    return bool(beside.against) or any(_is_torch(one) for one in beside.requires)


def torch_of(beside: Surroundings) -> str:
    """For people: torch as it is declared, or as it was built against."""
    if any(_is_torch(one) for one in beside.requires):
        return "torch"
    return f"torch {beside.against}, which it was built against and does not declare"


def _is_torch(asked: Requirement) -> bool:
    return canonicalize_name(asked.name) == "torch"


def _is_nvidias(place: PurePosixPath) -> bool:
    """Whether a package of NVIDIA's has that file: site-packages/nvidia/cublas/lib/libcublas.so."""
    return place.is_relative_to(_SITE) and is_in_its_folder(place.relative_to(_SITE))
