"""Format and parse arch lists for each of their readers.

The readers are torch.utils.cpp_extension and PyTorch's CMake (cmake/Modules_CUDA_fix/upstream/
FindCUDA/select_compute_arch.cmake), which differ and change by release, and CMake itself.
pytorch.yaml has the results of running them: `extension_archs`, `cmake_archs` and
`arch_list_parsing`. A list is never empty: each reader then takes the GPUs of the machine.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tasks.core.errors import KnowledgeError
from tasks.core.model import Arch
from tasks.knowledge import machine_code_rules
from tasks.knowledge.cuda_toolkits import find_toolkit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tasks.knowledge.knowledge_files import Knowledge

BUILD_HOST_GPUS = "the cards of the machine that builds, and fails where there are none"


def format_extension_archs(
    knowledge: Knowledge, torch: str, archs: Iterable[Arch], ptx: bool = False
) -> str:
    """Return TORCH_CUDA_ARCH_LIST for that torch's cpp_extension: `8.9;12.0+PTX`.

    Raises `KnowledgeError` if that release does not accept an arch.
    """
    ordered = _sort_archs(archs)
    for arch in ordered:
        require_extension_arch(knowledge, torch, arch)
    return _join_archs(ordered, ptx)


def format_torch_cmake_archs(
    knowledge: Knowledge, torch: str, archs: Iterable[Arch], ptx: bool = False
) -> str:
    """Return TORCH_CUDA_ARCH_LIST for that torch's CMake, which accepts `12.0f` from 2.9 on.

    Raises `KnowledgeError` if that release does not accept an arch.
    """
    ordered = _sort_archs(archs)
    for arch in ordered:
        require_torch_cmake_arch(knowledge, torch, arch)
    return _join_archs(ordered, ptx)


def format_cmake_archs(archs: Iterable[Arch], ptx: bool = False) -> str:
    """Return CMAKE_CUDA_ARCHITECTURES, `89-real;120-real`.

    With `ptx`, the highest arch is `120`: both cubin and PTX.
    """
    ordered = _sort_archs(archs)
    ptx_arch = _find_ptx_arch(ordered) if ptx else None
    names = (
        arch.sm.removeprefix("sm_") + ("" if arch == ptx_arch else "-real") for arch in ordered
    )
    return ";".join(names)


def require_extension_arch(knowledge: Knowledge, torch: str, arch: Arch) -> None:
    """Raise `KnowledgeError` if that torch's cpp_extension does not accept `arch`."""
    if not machine_code_rules.is_extension_arch_supported(knowledge, torch, arch):
        raise KnowledgeError(
            f"the extension builder of torch {torch} does not accept {arch}",
            hint=machine_code_rules.format_extension_arch_hint(knowledge, torch, arch),
        )


def require_torch_cmake_arch(knowledge: Knowledge, torch: str, arch: Arch) -> None:
    """Raise `KnowledgeError` if that torch's CMake does not accept `arch`."""
    if not machine_code_rules.is_cmake_arch_supported(knowledge, torch, arch):
        base_arch = Arch(arch.major, arch.minor)
        alternative = (
            f', or write "{base_arch}"'
            if machine_code_rules.is_cmake_arch_supported(knowledge, torch, base_arch)
            else ""
        )
        first_release = machine_code_rules.find_first_cmake_release(knowledge, [arch])
        raise KnowledgeError(
            f"the CMake of torch {torch} does not accept {arch}",
            hint=f"choose a newer torch ({first_release} is the first that does){alternative}",
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
    """Return the highest arch without a suffix.

    Raises `KnowledgeError` if all have one: PTX with a suffix does not run on later GPUs, and PTX
    is included for them.
    """
    unsuffixed = [arch for arch in ordered if not arch.suffix]
    if not unsuffixed:
        top = ordered[-1]
        raise KnowledgeError(
            f"PTX of {top} is for no later card",
            hint=f'add "{top.major}.{top.minor}" to target.gpus, or leave target.ptx at false',
        )
    return unsuffixed[-1]


_ARCH_LIST_EXAMPLE = 'write capabilities with ";" between them: "8.9;12.0+PTX"'
_CMAKE_ARCHS_EXAMPLE = 'write numbers with ";" between them: "89-real;120-real"'
_ARCH_PATTERN = re.compile(r"\d{1,2}\.\d[af]?")
_CMAKE_ARCH_PATTERN = re.compile(r"(\d{2,3}[af]?)(?:-(real|virtual))?")
_DETECT_GPU_WORDS = {"native", "auto"}
_CMAKE_ARCH_SETS = {"all", "common"}


def parse_extension_archs(
    knowledge: Knowledge, torch: str, text: str
) -> machine_code_rules.MachineCode:
    """Return the code that cpp_extension of that torch builds for the user's TORCH_CUDA_ARCH_LIST.

    Empty lists and items, names, `native`, and an arch that the release does not accept raise a
    `KnowledgeError` with the reason.
    """
    items = _parse_arch_items(knowledge, text, re.split("[; ]", text), "torch's extension builder")
    for arch, _ in items:
        require_extension_arch(knowledge, torch, arch)
    return _build_machine_code(items)


def parse_torch_cmake_archs(
    knowledge: Knowledge, torch: str, text: str
) -> machine_code_rules.MachineCode:
    """Return the code that the CMake of that torch builds for the user's TORCH_CUDA_ARCH_LIST.

    Repeated or trailing separators are accepted.
    """
    items = _parse_arch_items(
        knowledge, text, re.findall(r"[^; \t]+", text) or [""], "torch's CMake"
    )
    for arch, _ in items:
        require_torch_cmake_arch(knowledge, torch, arch)
    return _build_machine_code(items)


def parse_cmake_archs(
    knowledge: Knowledge, cuda: str, text: str
) -> machine_code_rules.MachineCode | None:
    """Return the code for CMAKE_CUDA_ARCHITECTURES or CUDAARCHS with that CUDA: `89-real;120`.

    None for "OFF", by which CMake leaves the choice to the project. A value that means other archs
    on another machine raises a `KnowledgeError`.
    """
    if text == "OFF":
        return None
    if text in {"all", "all-major"}:
        return _expand_all_archs(knowledge, cuda, major=text == "all-major")
    matches = [_CMAKE_ARCH_PATTERN.fullmatch(item) for item in text.split(";")]
    if not all(matches):
        raise KnowledgeError(
            f'"{text}" is no list of architectures that is the same on every machine',
            hint=_CMAKE_ARCHS_EXAMPLE,
        )
    archs = [(Arch.parse_capability(f"sm_{item[1]}"), item[2]) for item in matches if item]
    return machine_code_rules.MachineCode(
        cubins=frozenset(arch for arch, code_kind in archs if code_kind != "virtual"),
        ptx=frozenset(arch for arch, code_kind in archs if code_kind != "real"),
    )


def _expand_all_archs(
    knowledge: Knowledge, cuda: str, *, major: bool
) -> machine_code_rules.MachineCode:
    """Return all archs without a suffix that the toolkit can compile, or the first of each major.

    nvcc counts its oldest arch as one of these (7.5, by `nvcc --dryrun -arch=all-major` of 13.0).
    The PTX of the highest major is included.
    """
    unsuffixed = {arch for arch in find_toolkit(knowledge, cuda).makes if not arch.suffix}
    majors = {arch for arch in unsuffixed if not arch.minor}
    cubins = majors | {min(unsuffixed)} if major else unsuffixed
    return machine_code_rules.MachineCode(frozenset(cubins), frozenset([max(majors)]))


def require_covered_targets(
    knowledge: Knowledge, code: machine_code_rules.MachineCode, targets: Iterable[Arch], text: str
) -> None:
    """Raise `KnowledgeError` if the list `text`, parsed as `code`, leaves out a target."""
    absent = [
        target for target in targets if not machine_code_rules.can_run_code(knowledge, code, target)
    ]
    if absent:
        raise KnowledgeError(
            f'the arch list "{text}" makes no code for {", ".join(map(str, absent))} (target.gpus)',
            hint="leave it out, and target.gpus decides; or add them",
        )


def _parse_arch_items(
    knowledge: Knowledge, text: str, items: Sequence[str], reader: str
) -> list[tuple[Arch, bool]]:
    if not text.strip("; \t"):
        raise KnowledgeError(
            f"an empty arch list stands for {BUILD_HOST_GPUS}",
            hint=f"leave it out, and target.gpus decides; or {_ARCH_LIST_EXAMPLE}",
        )
    return [_parse_arch_item(knowledge, text, item, reader) for item in items]


def _parse_arch_item(knowledge: Knowledge, text: str, item: str, reader: str) -> tuple[Arch, bool]:
    name = item.removesuffix("+PTX")
    if _ARCH_PATTERN.fullmatch(name):
        return Arch.parse_capability(name), item != name
    if not name:
        raise KnowledgeError(
            f'the arch list "{text}" has an empty item, which ends {reader}',
            hint=_ARCH_LIST_EXAMPLE,
        )
    raise _build_arch_error(knowledge, text, name, reader)


def _build_arch_error(knowledge: Knowledge, text: str, name: str, reader: str) -> KnowledgeError:
    word = name.lower().partition("+")[0]
    if word in _DETECT_GPU_WORDS:
        return KnowledgeError(
            f'"{name}" stands for {BUILD_HOST_GPUS}',
            hint="leave it out and write target.gpus: auto, which is kept once it is known",
        )
    if word in _CMAKE_ARCH_SETS:
        return KnowledgeError(
            f'"{name}" is for CMake only, and names archs that CUDA 13 cannot make',
            hint=_ARCH_LIST_EXAMPLE,
        )
    for family in knowledge.families:
        if word == family.name.lower():
            return KnowledgeError(
                f'"{name}" means other archs to each release of torch, and its extension builder '
                "adds PTX",
                hint=f"write those that you mean, of {', '.join(map(str, family.archs))}",
            )
    number = re.fullmatch(r"(?:sm_|compute_)?(\d{1,2})(\d[af]?)", name)
    return KnowledgeError(
        f'"{name}" in the arch list "{text}" is nothing that {reader} reads',
        hint=f'write "{number[1]}.{number[2]}"' if number else _ARCH_LIST_EXAMPLE,
    )


def _build_machine_code(items: Sequence[tuple[Arch, bool]]) -> machine_code_rules.MachineCode:
    return machine_code_rules.MachineCode(
        cubins=frozenset(arch for arch, _ in items),
        ptx=frozenset(arch for arch, ptx in items if ptx),
    )
