"""Resolve which NVIDIA packages and RPATH a wheel needs on machines without a CUDA toolkit.

As in PyTorch's official wheels, the packages are pinned, and their folders come first in the RPATH.
Unlike a RUNPATH, an RPATH precedes LD_LIBRARY_PATH, and applies to indirect dependencies.
"""

import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from email.parser import HeaderParser

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tasks.core.pip_requirements import parse_requirements, select_applicable_requirements
from tasks.wheels import nvidia_packages
from tasks.wheels.library_linkage import LibraryNeed, Linkage, is_driver_library

_LINUX_MARKER = 'platform_system == "Linux"'


@dataclass(frozen=True)
class CudaPackage:
    """The NVIDIA package of a library: the requirement, and the folder below site-packages."""

    requirement: str
    folder: str


@dataclass(frozen=True)
class CudaRequirements:
    """The packages and RPATHs with which a wheel runs without a CUDA toolkit.

    `requires` are pip requirements. `paths` are the changed RPATHs by library. `promised` are the
    files below site-packages that the requirements install. `unpackaged` are libraries of the
    toolkit that no known package contains.
    """

    requires: tuple[str, ...] = ()
    paths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    promised: frozenset[str] = frozenset()
    unpackaged: tuple[str, ...] = ()


NO_REQUIREMENTS = CudaRequirements()


def resolve_cuda_requirements(
    linkages: Mapping[str, Linkage],
    needs: Sequence[LibraryNeed],
    find_package: Callable[[LibraryNeed], CudaPackage | None],
    is_toolkit_folder: Callable[[str], bool],
) -> CudaRequirements:
    """Return the CUDA requirements for the libraries of a wheel.

    `linkages` has the libraries by their name in the wheel, `needs` their direct and indirect
    needs. If packages provide all libraries of the toolkit, its folders are removed from every
    RPATH.
    """
    needs = [need for need in needs if not is_driver_library(need.name)]
    packages = {need.name: package for need in needs if (package := find_package(need))}
    missing = [need for need in needs if need.place and need.name not in packages]
    unpackaged = {n.name for n in missing if is_toolkit_folder(posixpath.dirname(n.place or ""))}
    other_folders = [
        packages[n.name].folder for n in needs if n.library not in linkages and n.name in packages
    ]
    paths = {}
    for name, linkage in linkages.items():
        needed_folders = [packages[need].folder for need in linkage.needed if need in packages]
        before = (*linkage.rpath, *linkage.runpath)
        rpath = [path for path in before if unpackaged or not is_toolkit_folder(path)]
        folders = sorted({*needed_folders, *other_folders}) if needed_folders else []
        # from torch/lib/libtorch_cuda.so to nvidia/cu13/lib: $ORIGIN/../../nvidia/cu13/lib
        start = posixpath.dirname(name)
        origin_paths = [f"$ORIGIN/{posixpath.relpath(folder, start)}" for folder in folders]
        after = tuple(dict.fromkeys([*origin_paths, *rpath]))
        if after != before or (needed_folders and linkage.runpath):
            paths[name] = after
    return CudaRequirements(
        tuple(sorted({package.requirement for package in packages.values()})),
        paths,
        frozenset(f"{package.folder}/{name}" for name, package in packages.items()),
        tuple(sorted(unpackaged)),
    )


def add_requirements(metadata: str, requires: Iterable[str]) -> str:
    """Return METADATA with `requires` added, except for packages that METADATA has already."""
    header_values = HeaderParser().parsestr(metadata).get_all("Requires-Dist", [])
    declared = select_applicable_requirements(parse_requirements(header_values), "linux")
    missing = [one for one in requires if not _is_declared(one, declared)]
    head, separator, body = metadata.partition("\n\n")
    lines = head.rstrip("\n").split("\n")
    last = max((n for n, line in enumerate(lines) if line.startswith("Requires-Dist:")), default=-1)
    place = last + 1 if last >= 0 else len(lines)
    lines[place:place] = [f"Requires-Dist: {one}; {_LINUX_MARKER}" for one in missing]
    return "\n".join(lines) + (separator or "\n") + body


def _is_declared(requirement: str, declared: Sequence[Requirement]) -> bool:
    name = canonicalize_name(Requirement(requirement).name)
    if package := nvidia_packages.find_package_by_distribution(name):
        majors = nvidia_packages.parse_distribution_majors(name)
        return bool(nvidia_packages.find_declared_requirement(package, declared, majors))
    return any(canonicalize_name(one.name) == name for one in declared)
