"""How archs are written for each who reads them, and how a person's own list is read. Pure.

The readers are torch.utils.cpp_extension and PyTorch's CMake (cmake/Modules_CUDA_fix/upstream/
FindCUDA/select_compute_arch.cmake), which differ and change by release, nvcc and CMake itself.
pytorch.yaml has what was found by running them: `extension_archs`, `cmake_archs` and
`arch_list_parsing`. A list is never empty, for then each of them takes whatever card is there.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tasks.errors import KnowledgeError
from tasks.knowledge.archs import (
    MachineCode,
    cmake_accepts,
    cmake_needs,
    extension_accepts,
    extension_remedy,
)
from tasks.knowledge.covers import covers
from tasks.knowledge.toolkits import require_toolkit
from tasks.model import Arch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tasks.knowledge.load import Knowledge

_EXAMPLE = 'write capabilities with ";" between them: "8.9;12.0+PTX"'
_ARCH = re.compile(r"\d{1,2}\.\d[af]?")
_HERE = "the cards of the machine that builds, and fails where there are none"
_CARDS_HERE = {"native", "auto"}
_SETS_OF_CMAKE = {"all", "common"}


def for_extension(
    knowledge: Knowledge, torch: str, archs: Iterable[Arch], ptx: bool = False
) -> str:
    """TORCH_CUDA_ARCH_LIST for that torch's cpp_extension: `8.9;12.0+PTX`.

    Raises `KnowledgeError` where that release does not take an arch.
    """
    ordered = _ordered(archs)
    for arch in ordered:
        _require_extension(knowledge, torch, arch)
    return _listed(ordered, ptx)


def for_torch_cmake(
    knowledge: Knowledge, torch: str, archs: Iterable[Arch], ptx: bool = False
) -> str:
    """TORCH_CUDA_ARCH_LIST for that torch's CMake, which takes `12.0f` from 2.9 on.

    Raises `KnowledgeError` where that release does not take an arch.
    """
    ordered = _ordered(archs)
    for arch in ordered:
        _require_cmake(knowledge, torch, arch)
    return _listed(ordered, ptx)


def gencode(
    knowledge: Knowledge, cuda: str, archs: Iterable[Arch], ptx: bool = False
) -> tuple[str, ...]:
    """nvcc's flags, `-gencode=arch=compute_120,code=sm_120` for each arch, and for the PTX.

    Raises `KnowledgeError` where that CUDA release does not make an arch.
    """
    ordered = _ordered(archs)
    require_toolkit(knowledge, cuda, ordered)
    flags = [f"-gencode=arch={_compute(arch)},code={arch.sm}" for arch in ordered]
    if ptx:
        name = _compute(_highest_plain(ordered))
        flags.append(f"-gencode=arch={name},code={name}")
    return tuple(flags)


def cmake_architectures(archs: Iterable[Arch], ptx: bool = False) -> str:
    """CMAKE_CUDA_ARCHITECTURES, `89-real;120-real`; the one with PTX is `120`, for both."""
    ordered = _ordered(archs)
    both = _highest_plain(ordered) if ptx else None
    return ";".join(_digits(arch) + ("" if arch == both else "-real") for arch in ordered)


def read_for_extension(knowledge: Knowledge, torch: str, text: str) -> MachineCode:
    """What that torch's cpp_extension makes of a TORCH_CUDA_ARCH_LIST that a person wrote.

    Empty lists and items, names and `native` are a `KnowledgeError` that says why, as is an arch
    which that release does not take.
    """
    items = _items(knowledge, text, re.split("[; ]", text), "torch's extension builder")
    for arch, _ in items:
        _require_extension(knowledge, torch, arch)
    return _code(items)


def read_for_torch_cmake(knowledge: Knowledge, torch: str, text: str) -> MachineCode:
    """What that torch's CMake makes of it; separators that are repeated, or last, do no harm."""
    items = _items(knowledge, text, re.findall(r"[^; \t]+", text) or [""], "torch's CMake")
    for arch, _ in items:
        _require_cmake(knowledge, torch, arch)
    return _code(items)


def require_targets(
    knowledge: Knowledge, code: MachineCode, targets: Iterable[Arch], text: str
) -> None:
    """A `KnowledgeError` where the list `text`, read as `code`, leaves out a target."""
    left = [target for target in targets if not covers(knowledge, code, target)]
    if left:
        raise KnowledgeError(
            f'the arch list "{text}" makes no code for {", ".join(map(str, left))} (target.gpus)',
            todo="leave it out, and target.gpus decides; or add them",
        )


def _items(
    knowledge: Knowledge, text: str, items: Sequence[str], reader: str
) -> list[tuple[Arch, bool]]:
    if not text.strip("; \t"):
        raise KnowledgeError(
            f"an empty arch list stands for {_HERE}",
            todo=f"leave it out, and target.gpus decides; or {_EXAMPLE}",
        )
    return [_item(knowledge, text, item, reader) for item in items]


def _item(knowledge: Knowledge, text: str, item: str, reader: str) -> tuple[Arch, bool]:
    name = item.removesuffix("+PTX")
    if _ARCH.fullmatch(name):
        return Arch.parse(name), item != name
    if not name:
        raise KnowledgeError(
            f'the arch list "{text}" has an empty item, which ends {reader}', todo=_EXAMPLE
        )
    raise _no_arch(knowledge, text, name, reader)


def _no_arch(knowledge: Knowledge, text: str, name: str, reader: str) -> KnowledgeError:
    word = name.lower().partition("+")[0]
    if word in _CARDS_HERE:
        return KnowledgeError(
            f'"{name}" stands for {_HERE}',
            todo="leave it out and write target.gpus: auto, which is kept once it is known",
        )
    if word in _SETS_OF_CMAKE:
        return KnowledgeError(
            f'"{name}" is for CMake only, and names archs that CUDA 13 cannot make', todo=_EXAMPLE
        )
    for family in knowledge.families:
        if word == family.name.lower():
            return KnowledgeError(
                f'"{name}" means other archs to each release of torch, and its extension builder '
                "adds PTX",
                todo=f"write those that you mean, of {', '.join(map(str, family.archs))}",
            )
    bare = re.fullmatch(r"(?:sm_|compute_)?(\d{1,2})(\d[af]?)", name)
    return KnowledgeError(
        f'"{name}" in the arch list "{text}" is nothing that {reader} reads',
        todo=f'write "{bare[1]}.{bare[2]}"' if bare else _EXAMPLE,
    )


def _code(items: Sequence[tuple[Arch, bool]]) -> MachineCode:
    return MachineCode(
        cubins=frozenset(arch for arch, _ in items),
        ptx=frozenset(arch for arch, ptx in items if ptx),
    )


def _require_extension(knowledge: Knowledge, torch: str, arch: Arch) -> None:
    if not extension_accepts(knowledge, torch, arch):
        raise KnowledgeError(
            f"the extension builder of torch {torch} does not accept {arch}",
            todo=extension_remedy(knowledge, torch, arch),
        )


def _require_cmake(knowledge: Knowledge, torch: str, arch: Arch) -> None:
    if not cmake_accepts(knowledge, torch, arch):
        plain = Arch(arch.major, arch.minor)
        instead = f', or write "{plain}"' if cmake_accepts(knowledge, torch, plain) else ""
        raise KnowledgeError(
            f"the CMake of torch {torch} does not accept {arch}",
            todo=f"choose a newer torch ({cmake_needs(knowledge, [arch])} is the first that "
            f"does){instead}",
        )


def _ordered(archs: Iterable[Arch]) -> list[Arch]:
    ordered = sorted(set(archs))
    if not ordered:
        raise KnowledgeError(
            f"an empty list of archs stands for {_HERE}",
            todo="name the cards in target.gpus",
        )
    return ordered


def _listed(ordered: Sequence[Arch], ptx: bool) -> str:
    highest = _highest_plain(ordered) if ptx else None
    return ";".join(f"{arch}+PTX" if arch == highest else str(arch) for arch in ordered)


def _highest_plain(ordered: Sequence[Arch]) -> Arch:
    """PTX of an arch with a suffix is for no later card, and that is what PTX is asked for."""
    plain = [arch for arch in ordered if not arch.suffix]
    if not plain:
        last = ordered[-1]
        raise KnowledgeError(
            f"PTX of {last} is for no later card",
            todo=f'add "{last.major}.{last.minor}" to target.gpus, or leave target.ptx at false',
        )
    return plain[-1]


def _digits(arch: Arch) -> str:
    return arch.sm.removeprefix("sm_")


def _compute(arch: Arch) -> str:
    return f"compute_{_digits(arch)}"
