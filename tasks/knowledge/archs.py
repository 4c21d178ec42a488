"""Which machine code runs on which card, and how archs are written for torch and for CMake.

The rules are NVIDIA's (Blackwell compatibility guide), tried with ptxas 13.5; the exceptions are
the table DEVICE_REQUIREMENT of torch 2.15's torch/cuda/__init__.py. toolkits.yaml holds both with
their evidence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tasks.errors import KnowledgeError
from tasks.model import Arch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tasks.knowledge.load import Knowledge

How = Literal["native", "compatible", "ptx", ""]

# Systems on a chip run no cubin but these, and no other card runs theirs. 10.1 was renamed to 11.0.
_SOC = {(8, 7): {(8, 7)}, (10, 1): {(10, 1), (11, 0)}}


@dataclass(frozen=True)
class MachineCode:
    """What a binary holds: finished code for some archs, and PTX that a driver can finish."""

    cubins: frozenset[Arch] = frozenset()
    ptx: frozenset[Arch] = frozenset()


def covers(code: MachineCode, target: Arch) -> bool:
    """Whether a card of capability `target` can run `code`, be it by compiling its PTX."""
    return how(code, target) != ""


def how(code: MachineCode, target: Arch) -> How:
    """How `target` would run `code`: made for it, for a smaller sibling, from PTX, or not at all.

    A target with a suffix (`9.0a`) asks for exactly that code, not only for a card that has it.
    """
    if target.suffix:
        return "native" if target in code.cubins else "ptx" if target in code.ptx else ""
    if any(_pair(cubin) == _pair(target) for cubin in code.cubins):
        return "native"
    if any(_runs(cubin, target) for cubin in code.cubins):
        return "compatible"
    return "ptx" if any(_finishes(ptx, target) for ptx in code.ptx) else ""


def arch_list(targets: Iterable[Arch], ptx: bool = False) -> str:
    """TORCH_CUDA_ARCH_LIST, `8.9;12.0+PTX`, as cpp_extension and CMake both read it alike.

    A family arch (`12.0f`) is a `KnowledgeError`: cpp_extension refuses it through torch 2.15.
    """
    ordered = sorted(set(targets))
    for arch in ordered:
        if arch.suffix == "f":
            raise KnowledgeError(
                f"torch's extension builder does not accept {arch}",
                todo=f'write "{arch.major}.{arch.minor}"',
            )
    return ";".join(map(str, ordered)) + ("+PTX" if ptx and ordered else "")


def read_arch_list(text: str) -> tuple[tuple[Arch, ...], bool]:
    """The archs of a list in that subset, and whether it ends in +PTX.

    `native`, names, commas and empty items are a `KnowledgeError`.
    """
    *first, last = text.split(";")
    ptx = last.endswith("+PTX")
    items = [*first, last.removesuffix("+PTX")]
    if wrong := [item for item in items if not re.fullmatch(r"\d{1,2}\.\da?", item)]:
        raise KnowledgeError(
            f'"{wrong[0]}" in the arch list "{text}" means different things to torch and to CMake',
            todo='write capabilities, ";" between them, +PTX on the last only: "8.9;12.0+PTX"',
        )
    return tuple(map(Arch.parse, items)), ptx


def cmake_archs(targets: Iterable[Arch], ptx: bool = False) -> str:
    """CMAKE_CUDA_ARCHITECTURES, `89-real;120-real`; with PTX the last is `120`, for both."""
    names = [arch.sm.removeprefix("sm_") for arch in sorted(set(targets))]
    if not names:
        return ""
    return ";".join(
        [f"{name}-real" for name in names[:-1]] + [names[-1] + ("" if ptx else "-real")]
    )


def extension_accepts(knowledge: Knowledge, torch_release: str, arch: Arch) -> bool:
    """Whether torch.utils.cpp_extension of that release takes `arch`.

    A release past the table counts as its newest.
    """
    rows = knowledge.pytorch_notes["extension_archs"]
    minor = ".".join(torch_release.split(".")[:2])
    row = next((row for row in rows if minor in row["releases"]), rows[-1])
    return str(arch) in row["archs"]


def cmake_accepts(knowledge: Knowledge, torch_release: str, arch: Arch) -> bool:
    """Whether CMake's find_package(Torch) of that release takes `arch`; nvcc may still refuse."""
    since = knowledge.pytorch_notes["cmake_archs"]
    needed = [since[f"{arch.suffix}_suffix_since"]] if arch.suffix else []
    if arch.major >= 10:
        needed.append(since["two_digit_majors_since"])
    return all(_numbers(torch_release) >= _numbers(bound) for bound in needed)


def _pair(arch: Arch) -> tuple[int, int]:
    return (arch.major, arch.minor)


def _runs(cubin: Arch, target: Arch) -> bool:
    if _pair(target) in _SOC:
        return not cubin.suffix and _pair(cubin) in _SOC[_pair(target)]
    if cubin.suffix == "a" or _pair(cubin) in _SOC:
        return False
    return cubin.major == target.major and cubin.minor <= target.minor


def _finishes(ptx: Arch, target: Arch) -> bool:
    if ptx.suffix == "a":
        return _pair(ptx) == _pair(target)
    if ptx.suffix == "f":
        return ptx.major == target.major and ptx.minor <= target.minor
    return _pair(ptx) <= _pair(target)


def _numbers(release: str) -> tuple[int, int]:
    major, minor = release.split(".")[:2]
    return (int(major), int(minor))
