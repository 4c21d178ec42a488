"""How archs are written for each who reads them; `ownlists` reads what a person wrote. Pure.

The readers are torch.utils.cpp_extension and PyTorch's CMake (cmake/Modules_CUDA_fix/upstream/
FindCUDA/select_compute_arch.cmake), which differ and change by release, and CMake itself.
pytorch.yaml has what was found by running them: `extension_archs`, `cmake_archs` and
`arch_list_parsing`. A list is never empty, for then each of them takes whatever card is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tasks.core.errors import KnowledgeError
from tasks.core.model import Arch
from tasks.knowledge.archs import (
    cmake_accepts,
    cmake_needs,
    extension_accepts,
    extension_remedy,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tasks.knowledge.load import Knowledge

CARDS_HERE = "the cards of the machine that builds, and fails where there are none"


def for_extension(
    knowledge: Knowledge, torch: str, archs: Iterable[Arch], ptx: bool = False
) -> str:
    """TORCH_CUDA_ARCH_LIST for that torch's cpp_extension: `8.9;12.0+PTX`.

    Raises `KnowledgeError` where that release does not take an arch.
    """
    ordered = _ordered(archs)
    for arch in ordered:
        require_extension(knowledge, torch, arch)
    return _listed(ordered, ptx)


def for_torch_cmake(
    knowledge: Knowledge, torch: str, archs: Iterable[Arch], ptx: bool = False
) -> str:
    """TORCH_CUDA_ARCH_LIST for that torch's CMake, which takes `12.0f` from 2.9 on.

    Raises `KnowledgeError` where that release does not take an arch.
    """
    ordered = _ordered(archs)
    for arch in ordered:
        require_cmake(knowledge, torch, arch)
    return _listed(ordered, ptx)


def cmake_architectures(archs: Iterable[Arch], ptx: bool = False) -> str:
    """CMAKE_CUDA_ARCHITECTURES, `89-real;120-real`; the one with PTX is `120`, for both."""
    ordered = _ordered(archs)
    both = _highest_plain(ordered) if ptx else None
    names = (arch.sm.removeprefix("sm_") + ("" if arch == both else "-real") for arch in ordered)
    return ";".join(names)


def require_extension(knowledge: Knowledge, torch: str, arch: Arch) -> None:
    """`KnowledgeError` where that torch's cpp_extension does not take `arch`."""
    if not extension_accepts(knowledge, torch, arch):
        raise KnowledgeError(
            f"the extension builder of torch {torch} does not accept {arch}",
            todo=extension_remedy(knowledge, torch, arch),
        )


def require_cmake(knowledge: Knowledge, torch: str, arch: Arch) -> None:
    """`KnowledgeError` where that torch's CMake does not take `arch`."""
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
            f"an empty list of archs stands for {CARDS_HERE}",
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
