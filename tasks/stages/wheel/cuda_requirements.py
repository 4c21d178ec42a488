"""A wheel for machines that have a driver and no CUDA toolkit: which packages of NVIDIA's it is to
declare, and which RPATH leads to them.

As upstream's: the packages are pinned, and the folders go first into an RPATH, which unlike a
RUNPATH goes before LD_LIBRARY_PATH and holds for what a library of NVIDIA's needs in turn.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.parser import HeaderParser

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tasks.core.pip_requirements import parse_requirements, select_applicable_requirements
from tasks.wheels.library_linkage import LibraryNeed, Linkage, is_driver_library
from tasks.wheels.nvidia_packages import (
    find_declared_requirement,
    find_package_by_distribution,
    parse_distribution_majors,
)

_LINUX_MARKER = 'platform_system == "Linux"'


@dataclass(frozen=True)
class CudaPackage:
    """A package that has a library: the requirement for it, and the library's folder below
    site-packages.
    """

    requirement: str
    folder: str


@dataclass(frozen=True)
class CudaRequirements:
    """What a wheel gets. `requires` are requirements, `paths` the RPATH of each library that has to
    have another one, `promised` the files below site-packages that the requirements bring, and
    `left` the libraries of the toolkit that no package is known for.
    """

    requires: tuple[str, ...] = ()
    paths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    promised: frozenset[str] = frozenset()
    unpackaged: tuple[str, ...] = ()


NO_REQUIREMENTS = CudaRequirements()


def resolve_cuda_requirements(
    held: Mapping[str, Linkage],
    needs: Sequence[LibraryNeed],
    bringer: Callable[[LibraryNeed], CudaPackage | None],
    of_toolkit: Callable[[str], bool],
) -> CudaRequirements:
    """For the libraries `held` by a wheel; `needs` are theirs, by their names there, and those of
    all that comes in through them, by its place.

    `bringer` tells which package has what was found, `of_toolkit` whether a folder is one of the
    toolkit: nothing of the wheel is to lead there, as long as all of it comes from elsewhere.
    """
    found = {
        need.name: by
        for need in needs
        if not is_driver_library(need.name) and (by := bringer(need))
    }
    left = sorted(set(_find_unpackaged(needs, found, of_toolkit)))
    beyond = [found[n.name].folder for n in needs if n.library not in held and n.name in found]
    paths = {}
    for name, linkage in held.items():
        own = [found[need].folder for need in linkage.needed if need in found]
        before = (*linkage.rpath, *linkage.runpath)
        kept = [path for path in before if left or not of_toolkit(path)]
        leading = _format_origin_paths(name, [*own, *beyond]) if own else []
        after = tuple(dict.fromkeys([*leading, *kept]))
        if after != before or (own and linkage.runpath):
            paths[name] = after
    return CudaRequirements(
        tuple(sorted({by.requirement for by in found.values()})),
        paths,
        frozenset(f"{by.folder}/{name}" for name, by in found.items()),
        tuple(left),
    )


def _find_unpackaged(
    needs: Iterable[LibraryNeed],
    found: Mapping[str, CudaPackage],
    of_toolkit: Callable[[str], bool],
) -> Iterator[str]:
    for need in needs:
        known = need.name in found or is_driver_library(need.name)
        if need.place and not known and of_toolkit(posixpath.dirname(need.place)):
            yield need.name


def _format_origin_paths(library: str, folders: Iterable[str]) -> list[str]:
    """`torch/lib/libtorch_cuda.so`, `nvidia/cu13/lib` → `$ORIGIN/../../nvidia/cu13/lib`."""
    start = posixpath.dirname(library)
    return [f"$ORIGIN/{posixpath.relpath(folder, start)}" for folder in sorted(set(folders))]


def add_requirements(metadata: str, requires: Iterable[str]) -> str:
    """METADATA with these requirements after its own; what it declares already is left alone."""
    listed = HeaderParser().parsestr(metadata).get_all("Requires-Dist", [])
    told = select_applicable_requirements(parse_requirements(listed), "linux")
    new = [one for one in requires if not _is_declared(Requirement(one), told)]
    head, separator, body = metadata.partition("\n\n")
    lines = head.rstrip("\n").split("\n")
    last = max((n for n, line in enumerate(lines) if line.startswith("Requires-Dist:")), default=-1)
    place = last + 1 if last >= 0 else len(lines)
    lines[place:place] = [f"Requires-Dist: {one}; {_LINUX_MARKER}" for one in new]
    return "\n".join(lines) + (separator or "\n") + body


def _is_declared(asked: Requirement, told: Sequence[Requirement]) -> bool:
    if found := find_package_by_distribution(asked.name):
        return bool(
            find_declared_requirement(
                found, told, parse_distribution_majors(canonicalize_name(asked.name))
            )
        )
    name = canonicalize_name(asked.name)
    return any(canonicalize_name(one.name) == name for one in told)
