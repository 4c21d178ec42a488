"""Find the external libraries of a wheel, and check that its requirements provide them.

The check assumes that the wheel is installed in an empty site-packages with only NVIDIA's packages
beside it, and applies the search rules of the loader. Libraries of this machine do not count.
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
_LOADER_LIBRARY = re.compile(r"ld-linux[\w-]*\.so|ld64\.so")  # the loader itself


@dataclass(frozen=True)
class TargetEnvironment:
    """The libraries that another machine has beside the wheel.

    `requires` are the requirements of the wheel. `system` are the names that every manylinux Linux
    has, None if unknown. `against` is the torch version that an extension was built against.
    `windows` are the DLLs that come with Windows, `is_torch` is True for torch itself. `cuda` are
    the CUDA major versions that the library names contain.
    """

    requires: Sequence[Requirement]
    system: Collection[str] | None
    against: str = ""
    windows: library_linkage.SystemDlls | None = None
    is_torch: bool = False
    cuda: frozenset[int] = frozenset()


@dataclass(frozen=True)
class ExternalLibrary:
    """A library outside the wheel, the libraries that need it, and its provider."""

    name: str
    users: tuple[str, ...]
    status: CheckStatus
    by: str


def find_external_libraries(
    held: Mapping[str, library_linkage.Linkage], beside: TargetEnvironment
) -> list[ExternalLibrary]:
    """Return the libraries that those in the wheel (`held`) need from outside, sorted by name."""
    machine = next((one.machine for one in held.values()), "")
    wheel_libraries = {str(_SITE_PACKAGES / name): linkage for name, linkage in held.items()}

    def find_linkage(place: str) -> library_linkage.Linkage | None:
        return wheel_libraries.get(place) or (
            library_linkage.Linkage(machine) if _is_nvidia_file(PurePosixPath(place)) else None
        )

    libraries = [
        library_linkage.LoadedLibrary(str(_SITE_PACKAGES / name), held[name])
        for name in library_linkage.sort_by_load_order(held)
    ]
    needs = library_linkage.load_libraries(
        libraries, library_linkage.LibrarySearch((), {}, (), find_linkage)
    )
    needs_by_name: dict[str, list[library_linkage.LibraryNeed]] = {}
    for need in needs:
        if need.library in wheel_libraries and need.place not in wheel_libraries:
            needs_by_name.setdefault(need.name, []).append(need)
    cuda = frozenset(major for name in needs_by_name for major in parse_library_majors(name))
    beside = replace(
        beside,
        requires=select_applicable_requirements(beside.requires, "linux", machine),
        cuda=cuda,
    )
    own_names = {PurePosixPath(name).name for name in held} | {one.soname for one in held.values()}
    return [
        ExternalLibrary(
            name,
            tuple(PurePosixPath(need.library).name for need in needs_by_name[name]),
            *_find_provider(
                name,
                beside,
                inside=name in own_names,
                reached=all(need.place for need in needs_by_name[name]),
            ),
        )
        for name in sorted(needs_by_name)
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
    provider = find_declared_requirement(package, beside.requires, majors)
    if provider and reached:
        return "passed", provider
    if has_torch(beside):  # torch is imported first and has loaded them
        return "passed", f"what comes with {describe_torch(beside)}"
    if provider:
        return "failed", f"{provider} has it, and no RPATH leads to $ORIGIN/…/nvidia/…/lib"
    names = {package.format_distribution(major) for major in majors} or {f"nvidia-{package.name}"}
    alternatives = " or ".join(sorted(names))
    return "failed", f"{alternatives} has it, and Requires-Dist does not name that"


def has_torch(beside: TargetEnvironment) -> bool:
    """Return True if torch is present, so that its libraries are loaded first."""
    return bool(beside.against) or any(_is_torch_requirement(one) for one in beside.requires)


def describe_torch(beside: TargetEnvironment) -> str:
    """Return torch as text: as a declared requirement, or the version that was built against."""
    if any(_is_torch_requirement(one) for one in beside.requires):
        return "torch"
    return f"torch {beside.against}, which it was built against and does not declare"


def _is_torch_requirement(asked: Requirement) -> bool:
    return canonicalize_name(asked.name) == "torch"


def _is_nvidia_file(place: PurePosixPath) -> bool:
    """Return True for a file of NVIDIA's packages: site-packages/nvidia/cublas/lib/libcublas.so."""
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
    """Return the DLLs that the libraries of a wheel need from outside, sorted by name.

    `needed` maps each library to the DLLs that it needs.
    """
    beside = replace(beside, requires=select_applicable_requirements(beside.requires, "windows"))
    own_names = {PurePosixPath(name).name.lower() for name in needed}
    users: dict[str, list[str]] = {}
    for library, names in needed.items():
        for name in names:
            if name not in own_names:
                users.setdefault(name, []).append(PurePosixPath(library).name)
    return [
        ExternalLibrary(name, tuple(users[name]), *_find_dll_provider(name, beside))
        for name in sorted(users)
    ]


def find_dll_package(name: str) -> NvidiaPackage | None:
    """Return the NVIDIA package that has a DLL, by its lower-case name."""
    if not (match := _NUMBERED_DLL.fullmatch(name)):
        return None
    stem = match["stem"]
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
        if beside.is_torch or has_torch(beside):  # importing torch requires it
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
    if has_torch(beside):  # torch is imported first, and its Windows wheel contains CUDA
        return "passed", f"what comes with {describe_torch(beside)}"
    if provider := find_declared_requirement(package, beside.requires):
        return "not run", f"{provider} has it, and only the package's own code could lead there"
    return "failed", f"nvidia-{package.name} has it, and Requires-Dist does not name that"
