"""Find the external libraries of a wheel, and check that its requirements provide them."""

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tasks.core.model import CheckStatus
from tasks.core.pip_requirements import select_applicable_requirements
from tasks.wheels import library_linkage, nvidia_packages
from tasks.wheels.library_linkage import Linkage, SystemDlls

_Provider = tuple[CheckStatus, str]  # the status of the check, and what provides the library
_SITE_PACKAGES = PurePosixPath("/site-packages")
_TORCH_LIBRARY = re.compile(r"lib(torch|c10|shm|caffe2)(_\w+)?\.so")
_LOADER_LIBRARY = re.compile(r"ld-linux[\w-]*\.so|ld64\.so")  # the dynamic loader


@dataclass(frozen=True)
class TargetEnvironment:
    """The environment of a wheel's user, which must provide the libraries outside the wheel.

    `requires` are the wheel's requirements. `system` and `windows` are the libraries of every Linux
    and Windows machine, `None` if unknown. `against` is the torch version of an extension.
    `is_torch` is True for the wheel of torch. `cuda` are the CUDA major versions of needed
    libraries.
    """

    requires: Sequence[Requirement]
    system: Collection[str] | None
    against: str = ""
    windows: SystemDlls | None = None
    is_torch: bool = False
    cuda: frozenset[int] = frozenset()


@dataclass(frozen=True)
class ExternalLibrary:
    """A library outside the wheel that the libraries `users` need.

    `by` is what provides it if `status` is "passed"; otherwise `by` says what is wrong.
    """

    name: str
    users: tuple[str, ...]
    status: CheckStatus
    by: str


def find_external_libraries(
    libraries: Mapping[str, Linkage], target: TargetEnvironment
) -> list[ExternalLibrary]:
    """Return the libraries outside the wheel that libraries in the wheel need, sorted by name."""
    machine = next((one.machine for one in libraries.values()), "")
    wheel_libraries = {str(_SITE_PACKAGES / name): linkage for name, linkage in libraries.items()}

    def find_linkage(place: str) -> Linkage | None:
        path = PurePosixPath(place)  # /site-packages/nvidia/cublas/lib/libcublas.so.12
        inside = path.is_relative_to(_SITE_PACKAGES)
        of_nvidia = inside and nvidia_packages.is_in_package_folder(
            path.relative_to(_SITE_PACKAGES)
        )
        return wheel_libraries.get(place) or (Linkage(machine) if of_nvidia else None)

    loaded = [
        library_linkage.LoadedLibrary(str(_SITE_PACKAGES / name), libraries[name])
        for name in library_linkage.sort_by_load_order(libraries)
    ]
    needs: dict[str, list[library_linkage.LibraryNeed]] = defaultdict(list)
    search = library_linkage.LibrarySearch((), {}, (), find_linkage)
    for need in library_linkage.load_libraries(loaded, search):
        if need.library in wheel_libraries and need.place not in wheel_libraries:
            needs[need.name].append(need)
    cuda = frozenset(
        major for name in needs for major in nvidia_packages.parse_library_majors(name)
    )
    requires = select_applicable_requirements(target.requires, "linux", machine)
    target = replace(target, requires=requires, cuda=cuda)
    own_names = {PurePosixPath(n).name for n in libraries} | {x.soname for x in libraries.values()}
    found = []
    for name, users in sorted(needs.items()):
        provider: _Provider = ("failed", "the wheel contains it, but no RPATH leads to it")
        if name not in own_names:
            provider = _find_provider(name, target, reached=all(need.place for need in users))
        user_names = tuple(PurePosixPath(need.library).name for need in users)
        found.append(ExternalLibrary(name, user_names, *provider))
    return found


def _find_provider(name: str, target: TargetEnvironment, *, reached: bool) -> _Provider:
    if library_linkage.is_driver_library(name):
        return "passed", "the driver"
    if package := nvidia_packages.find_nvidia_package(name):
        return _check_nvidia_library(name, package, target, reached=reached)
    if _TORCH_LIBRARY.match(name) and (torch := _describe_torch(target)):
        return "passed", torch
    if _LOADER_LIBRARY.match(name) or name in (target.system or ()):
        return "passed", "every manylinux system"
    if target.system is None:
        return "not run", "the library list of auditwheel cannot be read"
    return "failed", "neither a requirement nor every Linux system provides it"


def _check_nvidia_library(
    name: str, package: nvidia_packages.NvidiaPackage, target: TargetEnvironment, *, reached: bool
) -> _Provider:
    majors = nvidia_packages.parse_library_majors(name) or target.cuda
    provider = nvidia_packages.find_declared_requirement(package, target.requires, majors)
    if provider and reached:
        return "passed", provider
    if torch := _describe_torch(target):  # torch is imported first and loads NVIDIA's libraries
        return "passed", f"the packages of {torch}"
    if provider:
        return "failed", f"{provider} has it, but no RPATH leads to $ORIGIN/…/nvidia/…/lib"
    names = {package.format_distribution(major) for major in majors} or {f"nvidia-{package.name}"}
    return "failed", f"{' or '.join(sorted(names))} has it, but is not in Requires-Dist"


def _describe_torch(target: TargetEnvironment) -> str:
    """Return a description of the torch that a wheel uses, "" if the wheel uses no torch."""
    if any(canonicalize_name(one.name) == "torch" for one in target.requires):
        return "torch"
    built = f"torch {target.against} (used for the build, but not in Requires-Dist)"
    return built if target.against else ""


_TORCH_DLL = re.compile(r"(torch|c10|shm|caffe2|uv)(_\w+)?\.dll")
_DRIVER_DLL = re.compile(r"(nvcuda|nvml|nvcuvid|nvencodeapi64|nvoptix\.\d+)\.dll")
# cudart64_12.dll, cublasLt64_13.dll, nvrtc64_120_0.dll, cudnn_ops64_9.dll, nvJitLink_120_0.dll
_NUMBERED_DLL = re.compile(r"(?P<stem>[a-z-]+(_[a-z][a-z_]*)??)(64)?_\d[\d_.]*\.dll")
_STEM_SPELLINGS = {"nvtoolsext": "nvToolsExt", "nvjitlink": "nvJitLink", "cublaslt": "cublasLt",
        "cusolvermg": "cusolverMg"}  # fmt: skip


def find_external_dlls(
    needed: Mapping[str, Sequence[str]], target: TargetEnvironment
) -> list[ExternalLibrary]:
    """Return the needed DLLs outside the wheel. `needed` maps libraries to the DLLs they need."""
    target = replace(target, requires=select_applicable_requirements(target.requires, "windows"))
    own_names = {PurePosixPath(name).name.lower() for name in needed}
    users: dict[str, list[str]] = defaultdict(list)
    for library, names in needed.items():
        for name in set(names) - own_names:
            users[name].append(PurePosixPath(library).name)
    found = sorted(users.items())
    return [ExternalLibrary(n, tuple(by), *_find_dll_provider(n, target)) for n, by in found]


def find_dll_package(name: str) -> nvidia_packages.NvidiaPackage | None:
    """Return the NVIDIA package that contains a DLL, None if unknown. `name` is in lower case."""
    if not (match := _NUMBERED_DLL.fullmatch(name)):
        return None
    stem = "cudnn" if match["stem"].startswith("cudnn_") else match["stem"]
    return nvidia_packages.find_nvidia_package(f"lib{_STEM_SPELLINGS.get(stem, stem)}.so")


def _find_dll_provider(name: str, target: TargetEnvironment) -> _Provider:
    torch = _describe_torch(target)
    if _DRIVER_DLL.fullmatch(name):
        return "passed", "the driver"
    if package := find_dll_package(name):
        if torch:  # torch is imported first, and its wheel contains the DLLs
            return "passed", f"the packages of {torch}"
        if provider := nvidia_packages.find_declared_requirement(package, target.requires):
            return "not run", f"{provider} has it, but only its own code can make Windows find it"
        return "failed", f"nvidia-{package.name} has it, but is not in Requires-Dist"
    if _TORCH_DLL.fullmatch(name) and torch:
        return "passed", torch
    # torch cannot be imported without the Visual C++ redistributable
    return _check_windows_dll(name, target.windows, with_torch=target.is_torch or bool(torch))


def _check_windows_dll(name: str, known: SystemDlls | None, *, with_torch: bool) -> _Provider:
    if known is None:
        return "not run", "the library list of delvewheel cannot be read"
    if name in known.redistributable:
        redistributable = "the Visual C++ redistributable"
        if with_torch:
            return "passed", f"{redistributable}, which torch requires"
        return "failed", f"{redistributable} has it, but no requirement installs that"
    if name in known.windows | known.python:
        return "passed", "every Windows system" if name in known.windows else "Python"
    return "failed", "neither a requirement nor every Windows system provides it"
