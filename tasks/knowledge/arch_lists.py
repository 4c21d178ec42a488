"""Format and parse arch lists for the programs that read them.

The readers are torch.utils.cpp_extension, PyTorch's CMake code (select_compute_arch.cmake in
cmake/Modules_CUDA_fix/upstream/FindCUDA) and CMake itself. The first two differ, and change by
release. pytorch.yaml has the results of running them: `extension_archs`, `cmake_archs` and
`arch_list_parsing`. An empty list is an error: each reader would take the GPUs of the build
machine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from tasks.core.errors import KnowledgeError
from tasks.core.model import Arch
from tasks.knowledge.cuda_toolkits import find_toolkit
from tasks.knowledge.machine_code_rules import (
    MachineCode,
    can_run_code,
    find_first_cmake_release,
    format_extension_arch_hint,
    is_cmake_arch_supported,
    is_extension_arch_supported,
)

if TYPE_CHECKING:
    from tasks.knowledge.knowledge_files import Knowledge

_ARCH_LIST_EXAMPLE = 'write capabilities, separated by ";": "8.9;12.0+PTX"'
_CMAKE_ARCHS_EXAMPLE = 'write numbers, separated by ";": "89-real;120-real"'
_BUILD_HOST_GPUS = "the GPUs of the build machine, and fails without a GPU"
_ARCH_PATTERN = re.compile(r"\d{1,2}\.\d[af]?")
_CMAKE_ARCH_PATTERN = re.compile(r"(\d{2,3}[af]?)(?:-(real|virtual))?")


def format_extension_archs(
    knowledge: Knowledge, torch: str, archs: Iterable[Arch], ptx: bool = False
) -> str:
    """Return TORCH_CUDA_ARCH_LIST for cpp_extension of the release `torch`: `8.9;12.0+PTX`.

    Raises `KnowledgeError` if that release does not accept an arch.
    """
    ordered = _sort_archs(archs)
    for arch in ordered:
        _require_extension_arch(knowledge, torch, arch)
    return _join_archs(ordered, ptx)


def format_torch_cmake_archs(
    knowledge: Knowledge, torch: str, archs: Iterable[Arch], ptx: bool = False
) -> str:
    """Return TORCH_CUDA_ARCH_LIST for PyTorch's CMake, which accepts `12.0f` from torch 2.9 on.

    Raises `KnowledgeError` if that release does not accept an arch.
    """
    ordered = _sort_archs(archs)
    for arch in ordered:
        _require_torch_cmake_arch(knowledge, torch, arch)
    return _join_archs(ordered, ptx)


def format_cmake_archs(archs: Iterable[Arch], ptx: bool = False) -> str:
    """Return CMAKE_CUDA_ARCHITECTURES, `89-real;120-real`.

    With `ptx`, the highest arch is written as `120`, which means both cubin and PTX.
    """
    ordered = _sort_archs(archs)
    ptx_arch = _find_ptx_arch(ordered) if ptx else None
    names = (
        arch.sm.removeprefix("sm_") + ("" if arch == ptx_arch else "-real") for arch in ordered
    )
    return ";".join(names)


def _require_extension_arch(knowledge: Knowledge, torch: str, arch: Arch) -> None:
    if not is_extension_arch_supported(knowledge, torch, arch):
        raise KnowledgeError(
            f"the extension builder of torch {torch} does not accept {arch}",
            hint=format_extension_arch_hint(knowledge, torch, arch),
        )


def _require_torch_cmake_arch(knowledge: Knowledge, torch: str, arch: Arch) -> None:
    if not is_cmake_arch_supported(knowledge, torch, arch):
        first_release = find_first_cmake_release(knowledge, [arch])
        hint = f"choose a newer torch ({first_release} is the first that accepts {arch})"
        base_arch = Arch(arch.major, arch.minor)
        if is_cmake_arch_supported(knowledge, torch, base_arch):
            hint = f'{hint}, or write "{base_arch}"'
        raise KnowledgeError(f"the CMake code of torch {torch} does not accept {arch}", hint=hint)


def _sort_archs(archs: Iterable[Arch]) -> list[Arch]:
    ordered = sorted(set(archs))
    if not ordered:
        raise KnowledgeError(
            f"an empty arch list means {_BUILD_HOST_GPUS}", hint="name the GPUs in target.gpus"
        )
    return ordered


def _join_archs(ordered: Sequence[Arch], ptx: bool) -> str:
    highest = _find_ptx_arch(ordered) if ptx else None
    return ";".join(f"{arch}+PTX" if arch == highest else str(arch) for arch in ordered)


def _find_ptx_arch(ordered: Sequence[Arch]) -> Arch:
    """Return the highest arch without a suffix.

    Raises `KnowledgeError` if every arch has a suffix: PTX is included for later GPUs, but PTX with
    a suffix does not run on them.
    """
    unsuffixed = [arch for arch in ordered if not arch.suffix]
    if not unsuffixed:
        top = ordered[-1]
        raise KnowledgeError(
            f"PTX for {top} does not run on later GPUs",
            hint=f'add "{top.major}.{top.minor}" to target.gpus, or set target.ptx: false',
        )
    return unsuffixed[-1]


def parse_extension_archs(knowledge: Knowledge, torch: str, text: str) -> MachineCode:
    """Return the code that cpp_extension of that torch builds for the user's TORCH_CUDA_ARCH_LIST.

    Raises `KnowledgeError` with the reason for an empty list or item, a name such as `Hopper` or
    `native`, and an arch that the release does not accept.
    """
    items, reader = re.split("[; ]", text), "torch's extension builder"
    return _parse_items(knowledge, torch, text, items, reader, _require_extension_arch)


def parse_torch_cmake_archs(knowledge: Knowledge, torch: str, text: str) -> MachineCode:
    """Return the code that the CMake of that torch builds for the user's TORCH_CUDA_ARCH_LIST.

    Repeated or trailing separators are accepted.
    """
    items, reader = re.findall(r"[^; \t]+", text), "torch's CMake"
    return _parse_items(knowledge, torch, text, items, reader, _require_torch_cmake_arch)


def parse_cmake_archs(knowledge: Knowledge, cuda: str, text: str) -> MachineCode | None:
    """Return the machine code that CMAKE_CUDA_ARCHITECTURES or CUDAARCHS selects: `89-real;120`.

    `cuda` is the toolkit release. None is for "OFF", with which CMake leaves the choice to the
    project. Raises `KnowledgeError` for a value that means other archs on another machine.
    """
    if text == "OFF":
        return None
    if text in {"all", "all-major"}:
        # nvcc counts its oldest arch as one of the majors (7.5, by `nvcc --dryrun -arch=all-major`
        # of 13.0), and includes the PTX of the highest major
        unsuffixed = {arch for arch in find_toolkit(knowledge, cuda).makes if not arch.suffix}
        majors = {arch for arch in unsuffixed if not arch.minor}
        cubins = unsuffixed if text == "all" else majors | {min(unsuffixed)}
        return MachineCode(frozenset(cubins), frozenset([max(majors)]))
    matches = [_CMAKE_ARCH_PATTERN.fullmatch(item) for item in text.split(";")]
    if not all(matches):
        raise KnowledgeError(
            f'"{text}" is not a list of architectures that is the same on every machine',
            hint=_CMAKE_ARCHS_EXAMPLE,
        )
    archs = [(Arch.parse_capability(f"sm_{item[1]}"), item[2]) for item in matches if item]
    return MachineCode(
        cubins=frozenset(arch for arch, code_kind in archs if code_kind != "virtual"),
        ptx=frozenset(arch for arch, code_kind in archs if code_kind != "real"),
    )


def require_covered_targets(
    knowledge: Knowledge, code: MachineCode, targets: Iterable[Arch], text: str
) -> None:
    """Raise `KnowledgeError` if the arch list `text` leaves out a target.

    `code` is the machine code that results from the list.
    """
    absent = [str(target) for target in targets if not can_run_code(knowledge, code, target)]
    if absent:
        raise KnowledgeError(
            f'the arch list "{text}" leaves out {", ".join(absent)} of target.gpus',
            hint="remove the list, so that target.gpus decides; or add the archs to the list",
        )


def _parse_items(  # noqa: PLR0913, PLR0917  (the list and its reader)
    knowledge: Knowledge,
    torch: str,
    text: str,
    items: Sequence[str],
    reader: str,
    require_arch: Callable[[Knowledge, str, Arch], None],
) -> MachineCode:
    if not text.strip("; \t"):
        raise KnowledgeError(
            f"an empty arch list means {_BUILD_HOST_GPUS}",
            hint=f"remove the list, so that target.gpus decides; or {_ARCH_LIST_EXAMPLE}",
        )
    archs: dict[Arch, bool] = {}  # whether the arch has +PTX
    for item in items:
        name = item.removesuffix("+PTX")
        if not _ARCH_PATTERN.fullmatch(name):
            raise _build_arch_error(knowledge, text, name, reader)
        arch = Arch.parse_capability(name)
        archs[arch] = archs.get(arch, False) or item != name
    for arch in archs:
        require_arch(knowledge, torch, arch)
    return MachineCode(frozenset(archs), frozenset(arch for arch, ptx in archs.items() if ptx))


def _build_arch_error(knowledge: Knowledge, text: str, name: str, reader: str) -> KnowledgeError:
    """Return the error for an item that is not a capability."""
    word = name.lower().partition("+")[0]
    family = next((family for family in knowledge.families if word == family.name.lower()), None)
    hint = _ARCH_LIST_EXAMPLE
    if not name:
        message = f'the arch list "{text}" has an empty item, on which {reader} fails'
    elif word in {"native", "auto"}:
        message = f'"{name}" means {_BUILD_HOST_GPUS}'
        hint = "remove it and set target.gpus: auto, which torchyard resolves once and then keeps"
    elif word in {"all", "common"}:
        message = f'"{name}" is for CMake only and includes archs that CUDA 13 cannot compile for'
    elif family:
        message = f'"{name}" means other archs in each torch release, and adds PTX to extensions'
        hint = f"write the archs that you need, of {', '.join(map(str, family.archs))}"
    else:
        message = f'{reader} cannot read "{name}" in the arch list "{text}"'
        if number := re.fullmatch(r"(?:sm_|compute_)?(\d{1,2})(\d[af]?)", name):
            hint = f'write "{number[1]}.{number[2]}"'
    return KnowledgeError(message, hint=hint)
