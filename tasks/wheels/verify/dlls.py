"""What the DLLs of a wheel for Windows need from outside, and whether its requirements bring it.
Pure.

Windows has no RPATH: a DLL is looked for beside the module that Python loads, in the folders that
somebody added (os.add_dll_directory, as torch does for torch/lib) and among Windows' own. So what
is anywhere in the wheel counts as found, and the machine's PATH for nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from tasks.core.dependencies import select_applicable_requirements
from tasks.core.model import CheckStatus
from tasks.wheels.linking.cudapackages import (
    NvidiaPackage,
    find_declared_requirement,
    find_nvidia_package,
)
from tasks.wheels.verify.outside import (
    ExternalLibrary,
    TargetEnvironment,
    describe_torch,
    has_torch,
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
        return "not run", "delvewheel, which knows what every Windows has, is not installed"
    if name in beside.windows.redistributable:
        return _check_redistributable(beside)
    for names, whose in (
        (beside.windows.windows, "every Windows"),
        (beside.windows.python, "Python"),
    ):
        if name in names:
            return "passed", whose
    return "failed", "no requirement brings it, and not every Windows has it"


def _check_redistributable(beside: TargetEnvironment) -> tuple[CheckStatus, str]:
    if beside.is_runtime_required:
        return "passed", "the Visual C++ redistributable, which torch asks for"
    return "failed", "the Visual C++ redistributable has it, and no requirement brings that"


def _check_nvidia_dll(package: NvidiaPackage, beside: TargetEnvironment) -> tuple[CheckStatus, str]:
    if has_torch(beside):  # whose wheel for Windows holds CUDA, and which is imported first
        return "passed", f"what comes with {describe_torch(beside)}"
    if by := find_declared_requirement(package, beside.requires):
        return "not run", f"{by} has it, and only the package's own code could lead there"
    return "failed", f"nvidia-{package.name} has it, and Requires-Dist does not name that"
