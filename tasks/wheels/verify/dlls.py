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

from tasks.core.dependencies import applying
from tasks.core.model import Status
from tasks.wheels.linking.cudapackages import Component, component, declared
from tasks.wheels.verify.outside import Outside, Surroundings, has_torch, torch_of

_TORCH = re.compile(r"(torch|c10|shm|caffe2|uv)(_\w+)?\.dll")
_DRIVER = re.compile(r"(nvcuda|nvml|nvcuvid|nvencodeapi64|nvoptix\.\d+)\.dll")
# cudart64_12.dll, cublasLt64_13.dll, nvrtc64_120_0.dll, cudnn_ops64_9.dll, nvJitLink_120_0.dll
_NUMBERED = re.compile(r"(?P<stem>[a-z-]+(_[a-z][a-z_]*)??)(64)?_\d[\d_.]*\.dll")
_OWN = {"nvtoolsext": "nvToolsExt", "nvjitlink": "nvJitLink", "cublaslt": "cublasLt",
        "cusolvermg": "cusolverMg"}  # fmt: skip


def outside(needed: Mapping[str, Sequence[str]], beside: Surroundings) -> list[Outside]:
    """What the libraries of a wheel, with what each of them `needed`, do not find in it; sorted."""
    beside = replace(beside, requires=applying(beside.requires, "windows"))
    inside = {PurePosixPath(name).name.lower() for name in needed}
    users: dict[str, list[str]] = {}
    for library, names in needed.items():
        for name in names:
            if name not in inside:
                users.setdefault(name, []).append(PurePosixPath(library).name)
    return [Outside(name, tuple(users[name]), *_brought(name, beside)) for name in sorted(users)]


def nvidias(name: str) -> Component | None:
    """The package of NVIDIA's that has a DLL, by its name in small letters."""
    if not (found := _NUMBERED.fullmatch(name)):
        return None
    stem = found["stem"]
    if stem.startswith("cudnn_"):
        stem = "cudnn"
    return component(f"lib{_OWN.get(stem, stem)}.so")


def _brought(name: str, beside: Surroundings) -> tuple[Status, str]:
    if _DRIVER.fullmatch(name):
        return "passed", "the driver"
    if package := nvidias(name):
        return _by_nvidia(package, beside)
    if _TORCH.fullmatch(name) and has_torch(beside):
        return "passed", torch_of(beside)
    return _of_windows(name, beside)


def _of_windows(name: str, beside: Surroundings) -> tuple[Status, str]:
    if beside.windows is None:
        return "not run", "delvewheel, which knows what every Windows has, is not installed"
    if name in beside.windows.redistributable:
        return _by_runtime(beside)
    for names, whose in (
        (beside.windows.windows, "every Windows"),
        (beside.windows.python, "Python"),
    ):
        if name in names:
            return "passed", whose
    return "failed", "no requirement brings it, and not every Windows has it"


def _by_runtime(beside: Surroundings) -> tuple[Status, str]:
    if beside.asks_for_runtime:
        return "passed", "the Visual C++ redistributable, which torch asks for"
    return "failed", "the Visual C++ redistributable has it, and no requirement brings that"


def _by_nvidia(package: Component, beside: Surroundings) -> tuple[Status, str]:
    if has_torch(beside):  # whose wheel for Windows holds CUDA, and which is imported first
        return "passed", f"what comes with {torch_of(beside)}"
    if by := declared(package, beside.requires):
        return "not run", f"{by} has it, and only the package's own code could lead there"
    return "failed", f"nvidia-{package.name} has it, and Requires-Dist does not name that"
