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
    find_first_cmake_release,
    format_extension_arch_hint,
    is_cmake_arch_supported,
    is_extension_arch_supported,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tasks.knowledge.load import Knowledge

BUILD_HOST_GPUS = "the cards of the machine that builds, and fails where there are none"


def format_extension_archs(
    knowledge: Knowledge, torch: str, archs: Iterable[Arch], ptx: bool = False
) -> str:
    """TORCH_CUDA_ARCH_LIST for that torch's cpp_extension: `8.9;12.0+PTX`.

    Raises `KnowledgeError` where that release does not take an arch.
    """
    ordered = _sort_archs(archs)
    for arch in ordered:
        require_extension_arch(knowledge, torch, arch)
    return _join_archs(ordered, ptx)


def format_torch_cmake_archs(
    knowledge: Knowledge, torch: str, archs: Iterable[Arch], ptx: bool = False
) -> str:
    """TORCH_CUDA_ARCH_LIST for that torch's CMake, which takes `12.0f` from 2.9 on.

    Raises `KnowledgeError` where that release does not take an arch.
    """
    ordered = _sort_archs(archs)
    for arch in ordered:
        require_torch_cmake_arch(knowledge, torch, arch)
    return _join_archs(ordered, ptx)


def format_cmake_archs(archs: Iterable[Arch], ptx: bool = False) -> str:
    """CMAKE_CUDA_ARCHITECTURES, `89-real;120-real`; the one with PTX is `120`, for both."""
    ordered = _sort_archs(archs)
    both = _find_ptx_arch(ordered) if ptx else None
    names = (arch.sm.removeprefix("sm_") + ("" if arch == both else "-real") for arch in ordered)
    return ";".join(names)


def require_extension_arch(knowledge: Knowledge, torch: str, arch: Arch) -> None:
    """`KnowledgeError` where that torch's cpp_extension does not take `arch`."""
    if not is_extension_arch_supported(knowledge, torch, arch):
        raise KnowledgeError(
            f"the extension builder of torch {torch} does not accept {arch}",
            hint=format_extension_arch_hint(knowledge, torch, arch),
        )


def require_torch_cmake_arch(knowledge: Knowledge, torch: str, arch: Arch) -> None:
    """`KnowledgeError` where that torch's CMake does not take `arch`."""
    if not is_cmake_arch_supported(knowledge, torch, arch):
        plain = Arch(arch.major, arch.minor)
        instead = (
            f', or write "{plain}"' if is_cmake_arch_supported(knowledge, torch, plain) else ""
        )
        raise KnowledgeError(
            f"the CMake of torch {torch} does not accept {arch}",
            hint=f"choose a newer torch ({find_first_cmake_release(knowledge, [arch])} is the first that "
            f"does){instead}",
        )


def _sort_archs(archs: Iterable[Arch]) -> list[Arch]:
    ordered = sorted(set(archs))
    if not ordered:
        raise KnowledgeError(
            f"an empty list of archs stands for {BUILD_HOST_GPUS}",
            hint="name the cards in target.gpus",
        )
    return ordered


def _join_archs(ordered: Sequence[Arch], ptx: bool) -> str:
    highest = _find_ptx_arch(ordered) if ptx else None
    return ";".join(f"{arch}+PTX" if arch == highest else str(arch) for arch in ordered)


def _find_ptx_arch(ordered: Sequence[Arch]) -> Arch:
    """PTX of an arch with a suffix is for no later card, and that is what PTX is asked for."""
    plain = [arch for arch in ordered if not arch.suffix]
    if not plain:
        last = ordered[-1]
        raise KnowledgeError(
            f"PTX of {last} is for no later card",
            hint=f'add "{last.major}.{last.minor}" to target.gpus, or leave target.ptx at false',
        )
    return plain[-1]
