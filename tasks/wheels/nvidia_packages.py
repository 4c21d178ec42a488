"""Map libraries to NVIDIA's packages, with the package name and folder for each CUDA version.

Up to CUDA 12, the names end in -cu12, and each package has its own folder (`nvidia/cublas/lib`).
From CUDA 13 on, the packages of the toolkit have no such suffix and share `nvidia/cu13/lib`;
packages outside the toolkit, such as cuDNN and NCCL, keep the old scheme.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_SHARED_FOLDER_MAJOR = 13
_SHARED_FOLDER = re.compile(r"cu\d+")  # nvidia/cu13 has the toolkit from 13.0 on
_FILE_VERSION = re.compile(r"\.so\.(\d+(?:\.\d+)*)$")
_MIN_VERSION_PARTS = 3  # minimum number of parts in a version


@dataclass(frozen=True)
class NvidiaPackage:
    """A package of NVIDIA. `name` is the package name without `nvidia-` and `-cu12`.

    `extra` is the extra of cuda-toolkit that installs the package, if any. `numbered` says which
    part of the package version is in the file names of its libraries.
    """

    name: str
    extra: str = ""
    numbered: Literal["whole", "begin", "not"] = "whole"

    def format_distribution(self, major: int) -> str:
        """Return the package name on the index for CUDA `major`, such as `nvidia-cublas-cu12`."""
        shared = self.extra and major >= _SHARED_FOLDER_MAJOR
        return f"nvidia-{self.name}" if shared else f"nvidia-{self.name}-cu{major}"

    def format_folder(self, major: int) -> str:
        """Return the library directory for CUDA `major`, relative to site-packages."""
        shared = self.extra and major >= _SHARED_FOLDER_MAJOR
        return f"nvidia/{f'cu{major}' if shared else self.name.replace('-', '_')}/lib"


# From the file lists of the wheels that torch 2.6.0 and 2.15.0 require, and of Debian's CUDA 12.4
_PACKAGES_BY_LIBRARY: Mapping[str, NvidiaPackage] = {
    "libcudart": NvidiaPackage("cuda-runtime", "cudart"),
    "libcupti": NvidiaPackage("cuda-cupti", "cupti", numbered="not"),  # libcupti.so.2024.1.1
    "libnvrtc": NvidiaPackage("cuda-nvrtc", "nvrtc"),
    "libnvrtc-builtins": NvidiaPackage("cuda-nvrtc", "nvrtc"),
    "libcublas": NvidiaPackage("cublas", "cublas"),
    "libcublasLt": NvidiaPackage("cublas", "cublas"),
    "libcufft": NvidiaPackage("cufft", "cufft"),
    "libcufftw": NvidiaPackage("cufft", "cufft"),
    "libcufile": NvidiaPackage("cufile", "cufile", "begin"),  # libcufile.so.1.9.1 of 1.9.1.3
    "libcurand": NvidiaPackage("curand", "curand"),
    "libcusolver": NvidiaPackage("cusolver", "cusolver"),
    "libcusolverMg": NvidiaPackage("cusolver", "cusolver"),
    "libcusparse": NvidiaPackage("cusparse", "cusparse"),
    "libnvJitLink": NvidiaPackage("nvjitlink", "nvjitlink"),
    "libnvToolsExt": NvidiaPackage("nvtx", "nvtx", numbered="not"),  # libnvToolsExt.so.1.0.0
    "libcudnn": NvidiaPackage("cudnn", numbered="begin"),  # libcudnn.so.9.1.0 of 9.1.0.70
    # libcusparseLt.so.0.6.2.3 of 0.6.2
    "libcusparseLt": NvidiaPackage("cusparselt", numbered="begin"),
    "libnccl": NvidiaPackage("nccl", numbered="begin"),
    "libnvshmem_host": NvidiaPackage("nvshmem", numbered="begin"),
}
# libcufft.so.11, libcurand.so.10 and libcudnn.so.9 of CUDA 12 are not numbered by CUDA
_NUMBERED_BY_CUDA = {
    "libcudart", "libcublas", "libcublasLt", "libcupti", "libnvrtc", "libnvrtc-builtins",
    "libnvJitLink",
}  # fmt: skip


def find_nvidia_package(library: str) -> NvidiaPackage | None:
    """Return the NVIDIA package that contains the file (libcublas.so.12), or None if unknown."""
    stem = library.partition(".so")[0]
    return _PACKAGES_BY_LIBRARY.get("libcudnn" if stem.startswith("libcudnn_") else stem)


def find_package_by_distribution(name: str) -> NvidiaPackage | None:
    """Return the package that an index calls `name` (nvidia-cublas-cu12), or None if unknown."""
    stem = re.sub(r"-cu\d+$", "", canonicalize_name(name).removeprefix("nvidia-"))
    return next((one for one in _PACKAGES_BY_LIBRARY.values() if one.name == stem), None)


def find_declared_requirement(
    of: NvidiaPackage, requires: Iterable[Requirement], majors: Collection[int] = ()
) -> str:
    """Return the name of the requirement that installs the package `of`, "" if none does.

    The requirement must allow one of the CUDA `majors`, if there are any.
    """
    pattern = re.compile(rf"nvidia-{of.name}(-cu\d+)?")
    names = {of.format_distribution(major) for major in majors}
    for requirement in requires:
        name = canonicalize_name(requirement.name)
        if name in names or (not majors and pattern.fullmatch(name)):
            return name
        extras = [extra for extra in (of.extra, "all") if of.extra and extra in requirement.extras]
        allowed = not majors or any(_allows_cuda_major(requirement, major) for major in majors)
        if name == "cuda-toolkit" and extras and allowed:
            return f"{name}[{extras[0]}]"
    return ""


def _allows_cuda_major(requirement: Requirement, major: int) -> bool:
    versions = [one.version.removesuffix(".*") for one in requirement.specifier]
    major_versions = [one for one in versions if one.partition(".")[0] == str(major)]
    trials = (f"{major}.0", *major_versions, f"{major}.999")  # with the lowest and the highest
    return any(requirement.specifier.contains(one, prereleases=True) for one in trials)


def parse_library_majors(library: str) -> Collection[int]:
    """Return the CUDA major version in a library name (libcublas.so.12), () if it has none."""
    stem, _, numbers = library.partition(".so.")
    major = numbers.partition(".")[0]
    return (int(major),) if stem in _NUMBERED_BY_CUDA and major.isdigit() else ()


def parse_distribution_majors(distribution: str) -> Collection[int]:
    """Return the CUDA major versions of a package: 12 for -cu12, from 13 on without a suffix."""
    match = re.search(r"-cu(\d+)$", distribution)
    return (int(match[1]),) if match else range(_SHARED_FOLDER_MAJOR, 100)


def is_in_package_folder(place: PurePosixPath) -> bool:
    """Return True for a library in an NVIDIA package, as in nvidia/cublas/lib/libcublas.so.12."""
    package = find_nvidia_package(place.name)
    match place.parts:
        case ("nvidia", folder, "lib", _) if package:
            shared = bool(package.extra and _SHARED_FOLDER.fullmatch(folder))
            return shared or folder == package.name.replace("-", "_")
    return False


def build_pinned_requirement(of: NvidiaPackage, cuda: str, file: str) -> str:
    """Return a requirement that installs the library `file` for the CUDA release `cuda`.

    For `libcublas.so.12.4.5.8`, it is `nvidia-cublas-cu12==12.4.5.8`. A file name with a shorter
    version gives a wider requirement.
    """
    major, minor = cuda.split(".")[:2]
    numbers = _FILE_VERSION.search(file)
    parts = numbers[1].split(".") if numbers else []
    if of.numbered == "not" or not parts:
        version = f"=={major}.{minor}.*" if of.extra else ""
    elif of.numbered == "whole" and len(parts) >= _MIN_VERSION_PARTS:
        version = f"=={'.'.join(parts)}"
    else:
        version = f"=={'.'.join(parts[:_MIN_VERSION_PARTS])}.*"
    return of.format_distribution(int(major)) + version
