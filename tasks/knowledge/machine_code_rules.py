"""Decide which machine code runs on which GPU, by NVIDIA's rules and the facts in toolkits.yaml."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tasks.core.model import Arch
from tasks.knowledge.versions import format_major_minor, parse_major_minor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tasks.knowledge.knowledge_files import Knowledge

Compatibility = Literal["native", "compatible", "ptx", ""]


def can_run_code(
    knowledge: Knowledge,
    code: MachineCode,
    target: Arch,
    *,
    maker: str | None = None,
    driver: str | None = None,
) -> bool:
    """Return True if a GPU of capability `target` can run `code`, possibly by compiling its PTX."""
    return classify_compatibility(knowledge, code, target, maker=maker, driver=driver) != ""


def classify_compatibility(
    knowledge: Knowledge,
    code: MachineCode,
    target: Arch,
    *,
    maker: str | None = None,
    driver: str | None = None,
) -> Compatibility:
    """Return how a GPU runs `code`: "native", "compatible", "ptx", or "" if it cannot.

    "compatible" is a cubin for another arch, usually a lower minor version. `maker` is the CUDA
    release that compiled the code, `driver` the CUDA release of the driver. A driver cannot compile
    newer PTX. Without `maker` or `driver`, PTX is assumed to run. A target with a suffix (`9.0a`)
    requires code for exactly that arch.
    """
    readable_ptx = code.ptx if _can_driver_read_ptx(knowledge, maker, driver) else frozenset()
    if target.suffix:
        return "native" if target in code.cubins else "ptx" if target in readable_ptx else ""
    if any((cubin.major, cubin.minor) == (target.major, target.minor) for cubin in code.cubins):
        return "native"
    if any(_can_run_cubin(knowledge, cubin, target, maker) for cubin in code.cubins):
        return "compatible"
    is_readable = any(_can_compile_ptx(knowledge, ptx, target) for ptx in readable_ptx)
    return "ptx" if is_readable else ""


def select_library_targets(library: str, targets: Sequence[Arch]) -> tuple[Arch, ...]:
    """Return the target in the library name (`_120_C`), or all targets if the name has none."""
    # tiny-cuda-nn builds a library with such a name for each target
    match = re.match(r"_(\d{2,3})_C(?:\.|$)", library)
    named_targets = tuple(target for target in targets if match and target.sm == f"sm_{match[1]}")
    return named_targets or tuple(targets)


def find_driver_ptx_isa(knowledge: Knowledge, driver_cuda: str) -> tuple[int, ...]:
    """Return the newest PTX ISA that a driver reads, (0, 0) for a driver older than all known ones.

    `driver_cuda` is the CUDA release that nvidia-smi shows. An unknown release counts as the known
    release before it.
    """
    newest = parse_major_minor(driver_cuda)
    readable = [kit for kit in knowledge.toolkits.values() if parse_major_minor(kit.cuda) <= newest]
    return max((parse_major_minor(kit.ptx_isa) for kit in readable), default=(0, 0))


def _can_driver_read_ptx(knowledge: Knowledge, maker: str | None, driver: str | None) -> bool:
    """Return True if the driver reads PTX of CUDA `maker`, or one of the releases is `None`."""
    # NVIDIA's minor-version compatibility (cubins of 12.8 run with a driver for 12.0) does
    # not apply to PTX
    if maker is None or driver is None or parse_major_minor(driver) >= parse_major_minor(maker):
        return True
    toolkit = knowledge.toolkits.get(format_major_minor(maker))
    newest = find_driver_ptx_isa(knowledge, driver)
    return toolkit is not None and parse_major_minor(toolkit.ptx_isa) <= newest


def _can_run_cubin(knowledge: Knowledge, cubin: Arch, target: Arch, maker: str | None) -> bool:
    if cubin.suffix:
        return target in knowledge.code_families.get(cubin, ())
    if chip := knowledge.integrated_gpus.get(target):
        if maker and chip.since and parse_major_minor(maker) >= parse_major_minor(chip.since):
            return cubin in chip.runs | chip.runs_since
        return cubin in chip.runs
    is_same_major = cubin.major == target.major and cubin.minor <= target.minor
    return is_same_major and cubin not in knowledge.integrated_gpus


def _can_compile_ptx(knowledge: Knowledge, ptx: Arch, target: Arch) -> bool:
    if ptx.suffix == "a":
        return (ptx.major, ptx.minor) == (target.major, target.minor)
    return target in knowledge.code_families.get(ptx, ()) if ptx.suffix else ptx <= target


@dataclass(frozen=True)
class MachineCode:
    """The code in a binary: compiled cubins, and PTX that a driver can compile."""

    cubins: frozenset[Arch] = frozenset()
    ptx: frozenset[Arch] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        """The archs of the cubins in order, then those of the PTX: "9.0", "12.0", "12.0+PTX"."""
        return (*map(str, sorted(self.cubins)), *(f"{arch}+PTX" for arch in sorted(self.ptx)))
