"""Format and parse arch lists for torch.utils.cpp_extension, PyTorch's CMake code and CMake.

Which lists cpp_extension and PyTorch's CMake code accept depends on the PyTorch release: see
`cmake_archs` and `arch_list_parsing` in pytorch.yaml, and `extension_archs` of each release.
"""

import re
from collections.abc import Iterable, Sequence

from tasks.core.errors import KnowledgeError
from tasks.core.model import Arch
from tasks.knowledge.cuda_toolkits import find_toolkit
from tasks.knowledge.knowledge_files import Knowledge
from tasks.knowledge.machine_code_rules import MachineCode, can_run_code
from tasks.knowledge.torch_releases import find_release
from tasks.knowledge.versions import parse_major_minor

_ARCH_LIST_EXAMPLE = 'write capabilities, separated by ";": "8.9;12.0+PTX"'
_CMAKE_ARCHS_EXAMPLE = 'write numbers, separated by ";": "89-real;120-real"'
_BUILD_HOST_GPUS = "the GPUs of the build machine, and fails without a GPU"
_EMPTY_LIST = f"the arch list is empty, which means {_BUILD_HOST_GPUS}"
_ARCH_PATTERN = re.compile(r"\d{1,2}\.\d[af]?")
_CMAKE_ARCH_PATTERN = re.compile(r"(\d{2,3}[af]?)(?:-(real|virtual))?")


def format_torch_archs(
    knowledge: Knowledge,
    torch: str,
    archs: Iterable[Arch],
    ptx: bool = False,
    *,
    cmake: bool = False,
) -> str:
    """Return the value of TORCH_CUDA_ARCH_LIST, such as `8.9;12.0+PTX`.

    The value is for extensions or, if `cmake` is True, for torch's CMake code. Raises
    `KnowledgeError` if the release `torch` rejects an arch.
    """
    ordered = _sort_archs(archs)
    for arch in ordered:
        _require_arch(knowledge, torch, arch, cmake=cmake)
    highest = _find_ptx_arch(ordered) if ptx else None
    return ";".join(f"{arch}+PTX" if arch == highest else str(arch) for arch in ordered)


def format_cmake_archs(archs: Iterable[Arch], ptx: bool = False) -> str:
    """Return CMAKE_CUDA_ARCHITECTURES: `89-real;120-real`, or `89-real;120` with PTX."""
    ordered = _sort_archs(archs)
    ptx_arch = _find_ptx_arch(ordered) if ptx else None
    names = (
        arch.sm.removeprefix("sm_") + ("" if arch == ptx_arch else "-real") for arch in ordered
    )
    return ";".join(names)


def _require_arch(knowledge: Knowledge, torch: str, arch: Arch, *, cmake: bool) -> None:
    is_supported = is_cmake_arch_supported if cmake else is_extension_arch_supported
    if is_supported(knowledge, torch, arch):
        return
    purpose, hint = "for extensions", format_extension_arch_hint(knowledge, torch, arch)
    if cmake:
        first_release = find_first_cmake_release(knowledge, [arch])
        base_arch = Arch(arch.major, arch.minor)
        purpose = "for its source build"
        hint = f"choose a newer torch ({first_release} is the first that accepts {arch})"
        hint += f', or write "{base_arch}"' if is_supported(knowledge, torch, base_arch) else ""
    raise KnowledgeError(f"torch {torch} does not accept {arch} {purpose}", hint=hint)


def _sort_archs(archs: Iterable[Arch]) -> list[Arch]:
    ordered = sorted(set(archs))
    if not ordered:
        raise KnowledgeError(_EMPTY_LIST, hint="name the GPUs in target.gpus")
    return ordered


def _find_ptx_arch(ordered: Sequence[Arch]) -> Arch:
    """Return the highest arch without a suffix.

    Raises `KnowledgeError` if there is none, since PTX with a suffix does not run on later GPUs.
    """
    unsuffixed = [arch for arch in ordered if not arch.suffix]
    if not unsuffixed:
        top = ordered[-1]
        hint = f'add "{top.major}.{top.minor}" to target.gpus, or set target.ptx: false'
        raise KnowledgeError(f"PTX for {top} does not run on later GPUs", hint=hint)
    return unsuffixed[-1]


def parse_torch_archs(
    knowledge: Knowledge, torch: str, text: str, *, cmake: bool = False
) -> MachineCode:
    """Return the machine code that the user's TORCH_CUDA_ARCH_LIST `text` selects.

    The list is for extensions or, if `cmake` is True, for torch's CMake code. Raises
    `KnowledgeError` for an empty list or item, a name such as `Hopper` or `native`, and an arch
    that the release `torch` rejects.
    """
    if not text.strip("; \t"):
        hint = f"remove the list, so that target.gpus decides; or {_ARCH_LIST_EXAMPLE}"
        raise KnowledgeError(_EMPTY_LIST, hint=hint)
    archs: dict[Arch, bool] = {}  # whether the arch has +PTX
    for item in re.findall(r"[^; \t]+", text) if cmake else re.split("[; ]", text):
        name = item.removesuffix("+PTX")
        if not _ARCH_PATTERN.fullmatch(name):
            reader = "torch's CMake" if cmake else "torch's extension builder"
            raise _build_arch_error(knowledge, text, name, reader)
        arch = Arch.parse_capability(name)
        archs[arch] = archs.get(arch, False) or item != name
    for arch in archs:
        _require_arch(knowledge, torch, arch, cmake=cmake)
    return MachineCode(frozenset(archs), frozenset(arch for arch, ptx in archs.items() if ptx))


def parse_cmake_archs(knowledge: Knowledge, cuda: str, text: str) -> MachineCode | None:
    """Return the machine code that `text`, CMAKE_CUDA_ARCHITECTURES or CUDAARCHS, selects.

    `cuda` is the toolkit's release. Returns `None` for "OFF", which leaves the choice to the
    project. Raises `KnowledgeError` for `native` and other values that depend on the machine.
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
        message = f'"{text}" is not a list of architectures that is the same on every machine'
        raise KnowledgeError(message, hint=_CMAKE_ARCHS_EXAMPLE)
    archs = [(Arch.parse_capability(f"sm_{item[1]}"), item[2]) for item in matches if item]
    return MachineCode(
        cubins=frozenset(arch for arch, code_kind in archs if code_kind != "virtual"),
        ptx=frozenset(arch for arch, code_kind in archs if code_kind != "real"),
    )


def require_covered_targets(
    knowledge: Knowledge, code: MachineCode, targets: Iterable[Arch], text: str
) -> None:
    """Raise `KnowledgeError` if the arch list `text`, which selects `code`, leaves out a target."""
    absent = [str(target) for target in targets if not can_run_code(knowledge, code, target)]
    if absent:
        hint = "remove the list, so that target.gpus decides; or add the archs to the list"
        message = f'the arch list "{text}" leaves out {", ".join(absent)} of target.gpus'
        raise KnowledgeError(message, hint=hint)


def _build_arch_error(knowledge: Knowledge, text: str, name: str, reader: str) -> KnowledgeError:
    """Return the error for the item `name` of the arch list `text`, which `reader` rejects."""
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


def is_extension_arch_supported(knowledge: Knowledge, torch_release: str, arch: Arch) -> bool:
    """Return True if torch.utils.cpp_extension of that release accepts `arch`.

    A torch that is older than all known releases counts as the oldest.
    """
    try:
        release = find_release(knowledge, torch_release)
    except KnowledgeError:
        release = next(iter(knowledge.releases.values()))
    return str(arch) in release.extension_archs


def format_extension_arch_hint(knowledge: Knowledge, torch_release: str, arch: Arch) -> str:
    """Return advice for an `arch` that the release rejects: another torch or another arch."""
    known = knowledge.releases.items()
    releases = [torch for torch, release in known if str(arch) in release.extension_archs]
    version = parse_major_minor(torch_release)
    able = f"that builds extensions for {arch}"
    if newer := [torch for torch in releases if parse_major_minor(torch) > version]:
        return f"choose a newer torch ({newer[0]} is the first {able})"
    if releases:
        return f"choose an older torch ({releases[-1]} is the last {able})"
    if arch.suffix:
        return f'write "{arch.major}.{arch.minor}"'
    return f"build for another arch or without extensions: no known torch builds them for {arch}"


def is_cmake_arch_supported(knowledge: Knowledge, torch_release: str, arch: Arch) -> bool:
    """Return True if the CMake code of that torch accepts `arch`."""
    first = find_first_cmake_release(knowledge, [arch])
    return first is None or parse_major_minor(torch_release) >= parse_major_minor(first)


def find_first_cmake_release(knowledge: Knowledge, archs: Sequence[Arch]) -> str | None:
    """Return the first torch whose CMake code accepts all `archs`, None if every torch does."""
    first_releases = knowledge.pytorch_notes["cmake_archs"]
    required = [first_releases[f"{arch.suffix}_suffix_since"] for arch in archs if arch.suffix]
    required += [first_releases["two_digit_majors_since"] for arch in archs if arch.major >= 10]
    return max(required, key=parse_major_minor, default=None)
