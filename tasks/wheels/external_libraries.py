"""What the libraries of a wheel need from outside, and whether its requirements bring it.

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

from tasks.core.model import CheckStatus
from tasks.core.pip_requirements import select_applicable_requirements
from tasks.wheels import library_linkage
from tasks.wheels.nvidia_packages import (
    NvidiaPackage,
    find_declared_requirement,
    find_nvidia_package,
    is_in_package_folder,
    parse_library_majors,
)

_SITE_PACKAGES = PurePosixPath("/site-packages")
_TORCH_LIBRARY = re.compile(r"lib(torch|c10|shm|caffe2)(_\w+)?\.so")
_LOADER_LIBRARY = re.compile(r"ld-linux[\w-]*\.so|ld64\.so")  # it is what loads all others


@dataclass(frozen=True)
class TargetEnvironment:
    """What another machine has beside the wheel: its `requires`, the names that every Linux of
    manylinux has (None where nobody here can tell), and torch, where it was built `against` one.
    `windows` are the DLLs that come with it there, `is_torch` whether the wheel is torch itself.
    `cuda` are the majors that the libraries ask for, as far as their names tell.
    """

    requires: Sequence[Requirement]
    system: Collection[str] | None
    against: str = ""
    windows: library_linkage.SystemDlls | None = None
    is_torch: bool = False
    cuda: frozenset[int] = frozenset()


@dataclass(frozen=True)
class ExternalLibrary:
    """A library that is not in the wheel, who needs it, and by whom it comes."""

    name: str
    users: tuple[str, ...]
    status: CheckStatus
    by: str


def find_external_libraries(
    held: Mapping[str, library_linkage.Linkage], beside: TargetEnvironment
) -> list[ExternalLibrary]:
    """What the libraries `held` by a wheel need that it does not hold, sorted by name."""
    machine = next((one.machine for one in held.values()), "")
    ours = {str(_SITE_PACKAGES / name): linkage for name, linkage in held.items()}

    def find_linkage(place: str) -> library_linkage.Linkage | None:
        return ours.get(place) or (
            library_linkage.Linkage(machine) if _is_nvidia_file(PurePosixPath(place)) else None
        )

    libraries = [
        library_linkage.LoadedLibrary(str(_SITE_PACKAGES / name), held[name])
        for name in library_linkage.sort_by_load_order(held)
    ]
    needs = library_linkage.load_libraries(
        libraries, library_linkage.LibrarySearch((), {}, (), find_linkage)
    )
    found: dict[str, list[library_linkage.LibraryNeed]] = {}
    for need in needs:
        if need.library in ours and need.place not in ours:
            found.setdefault(need.name, []).append(need)
    cuda = frozenset(major for name in found for major in parse_library_majors(name))
    beside = replace(
        beside,
        requires=select_applicable_requirements(beside.requires, "linux", machine),
        cuda=cuda,
    )
    inside = {PurePosixPath(name).name for name in held} | {one.soname for one in held.values()}
    return [
        ExternalLibrary(
            name,
            tuple(PurePosixPath(need.library).name for need in found[name]),
            *_find_provider(
                name,
                beside,
                inside=name in inside,
                reached=all(need.place for need in found[name]),
            ),
        )
        for name in sorted(found)
    ]


def _find_provider(
    name: str, beside: TargetEnvironment, *, inside: bool, reached: bool
) -> tuple[CheckStatus, str]:
    if inside:
        return "failed", "it is in the wheel, and no RPATH leads there"
    if library_linkage.is_driver_library(name):
        return "passed", "the driver"
    if package := find_nvidia_package(name):
        majors = parse_library_majors(name) or beside.cuda
        return _check_nvidia_library(package, beside, majors, reached=reached)
    if _TORCH_LIBRARY.match(name) and has_torch(beside):
        return "passed", describe_torch(beside)
    return _check_system_library(name, beside)


def _check_system_library(name: str, beside: TargetEnvironment) -> tuple[CheckStatus, str]:
    if _LOADER_LIBRARY.match(name) or name in (beside.system or ()):
        return "passed", "every Linux of manylinux"
    if beside.system is None:
        return "not run", "auditwheel's list of what every Linux has cannot be read"
    return "failed", "no requirement brings it, and not every Linux has it"


def _check_nvidia_library(
    package: NvidiaPackage, beside: TargetEnvironment, majors: Collection[int], *, reached: bool
) -> tuple[CheckStatus, str]:
    by = find_declared_requirement(package, beside.requires, majors)
    if by and reached:
        return "passed", by
    if has_torch(beside):  # which is imported first, and has loaded them
        return "passed", f"what comes with {describe_torch(beside)}"
    if by:
        return "failed", f"{by} has it, and no RPATH leads to $ORIGIN/…/nvidia/…/lib"
    names = {package.format_distribution(major) for major in majors} or {f"nvidia-{package.name}"}
    named = " or ".join(sorted(names))
    return "failed", f"{named} has it, and Requires-Dist does not name that"


def has_torch(beside: TargetEnvironment) -> bool:
    """Whether torch is there, and has loaded its libraries before."""
    return bool(beside.against) or any(_is_torch_requirement(one) for one in beside.requires)


def describe_torch(beside: TargetEnvironment) -> str:
    """For people: torch as it is declared, or as it was built against."""
    if any(_is_torch_requirement(one) for one in beside.requires):
        return "torch"
    return f"torch {beside.against}, which it was built against and does not declare"


def _is_torch_requirement(asked: Requirement) -> bool:
    return canonicalize_name(asked.name) == "torch"


def _is_nvidia_file(place: PurePosixPath) -> bool:
    """Whether a package of NVIDIA's has that file: site-packages/nvidia/cublas/lib/libcublas.so."""
    return place.is_relative_to(_SITE_PACKAGES) and is_in_package_folder(
        place.relative_to(_SITE_PACKAGES)
    )


_TORCH_DLL = re.compile(r"(torch|c10|shm|caffe2|uv)(_\w+)?\.dll")
_DRIVER_DLL = re.compile(r"(nvcuda|nvml|nvcuvid|nvencodeapi64|nvoptix\.\d+)\.dll")
# cudart64_12.dll, cublasLt64_13.dll, nvrtc64_120_0.dll, cudnn_ops64_9.dll, nvJitLink_120_0.dll
_NUMBERED_DLL = re.compile(r"(?P<stem>[a-z-]+(_[a-z][a-z_]*)??)(64)?_\d[\d_.]*\.dll")
_STEM_SPELLINGS = {"nvtoolsext": "nvToolsExt", "nvjitlink": "nvJitLink", "cublaslt": "cublasLt",
        "cusolvermg": "cusolverMg"}  # fmt: skip


def find_external_dlls(
    needed: Mapping[str, Sequence[str]], beside: TargetEnvironment
) -> list[ExternalLibrary]:
    """What the libraries of a wheel, with what each of them `needed`, do not find in it; sorted."""
    beside = replace(beside, requires=select_applicable_requirements(beside.requires, "windows"))
    inside = {PurePosixPath(name).name.lower() for name in needed}
    users: dict[str, list[str]] = {}
    for library, names in needed.items():
        for name in names:
            if name not in inside:
                users.setdefault(name, []).append(PurePosixPath(library).name)
    return [
        ExternalLibrary(name, tuple(users[name]), *_find_dll_provider(name, beside))
        for name in sorted(users)
    ]


def find_dll_package(name: str) -> NvidiaPackage | None:
    """The package of NVIDIA's that has a DLL, by its name in small letters."""
    if not (found := _NUMBERED_DLL.fullmatch(name)):
        return None
    stem = found["stem"]
    if stem.startswith("cudnn_"):
        stem = "cudnn"
    return find_nvidia_package(f"lib{_STEM_SPELLINGS.get(stem, stem)}.so")


def _find_dll_provider(name: str, beside: TargetEnvironment) -> tuple[CheckStatus, str]:
    if _DRIVER_DLL.fullmatch(name):
        return "passed", "the driver"
    if package := find_dll_package(name):
        return _check_nvidia_dll(package, beside)
    if _TORCH_DLL.fullmatch(name) and has_torch(beside):
        return "passed", describe_torch(beside)
    return _check_windows_dll(name, beside)


def _check_windows_dll(name: str, beside: TargetEnvironment) -> tuple[CheckStatus, str]:
    if beside.windows is None:
        return "not run", "delvewheel's list of what every Windows has cannot be read"
    if name in beside.windows.redistributable:
        if beside.is_torch or has_torch(beside):  # which asks for it when it is imported
            return "passed", "the Visual C++ redistributable, which torch asks for"
        return "failed", "the Visual C++ redistributable has it, and no requirement brings that"
    for names, whose in (
        (beside.windows.windows, "every Windows"),
        (beside.windows.python, "Python"),
    ):
        if name in names:
            return "passed", whose
    return "failed", "no requirement brings it, and not every Windows has it"


def _check_nvidia_dll(package: NvidiaPackage, beside: TargetEnvironment) -> tuple[CheckStatus, str]:
    if has_torch(beside):  # whose wheel for Windows holds CUDA, and which is imported first
        return "passed", f"what comes with {describe_torch(beside)}"
    if by := find_declared_requirement(package, beside.requires):
        return "not run", f"{by} has it, and only the package's own code could lead there"
    return "failed", f"nvidia-{package.name} has it, and Requires-Dist does not name that"
