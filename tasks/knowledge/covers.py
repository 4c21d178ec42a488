"""Which machine code runs on which card.

The rules are NVIDIA's (Blackwell compatibility guide), tried with ptxas; those of systems on a chip
are the table DEVICE_REQUIREMENT of torch 2.15's torch/cuda/__init__.py. toolkits.yaml holds them
with their evidence: `integrated`, `families` and `binary_rules`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from tasks.core.model import Arch
from tasks.knowledge.versions import major_minor, numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tasks.knowledge.archs import MachineCode
    from tasks.knowledge.facts import BinaryRules
    from tasks.knowledge.load import Knowledge

How = Literal["native", "compatible", "ptx", ""]


def covers(
    knowledge: Knowledge,
    code: MachineCode,
    target: Arch,
    *,
    maker: str | None = None,
    driver: str | None = None,
) -> bool:
    """Whether a card of capability `target` can run `code`, be it by compiling its PTX."""
    return how(knowledge, code, target, maker=maker, driver=driver) != ""


def how(
    knowledge: Knowledge,
    code: MachineCode,
    target: Arch,
    *,
    maker: str | None = None,
    driver: str | None = None,
) -> How:
    """How `target` would run `code`: made for it, for a smaller sibling, from PTX, or not at all.

    `maker` is the CUDA release that made the code: Orin runs cubins of others from 13.2 on only.
    `driver` is the CUDA release that the driver is for: it finishes no PTX that is newer. Where one
    of them is not given, PTX is taken to be finished. A target with a suffix (`9.0a`) asks for
    exactly that code, not only for a card that has it.
    """
    rules = knowledge.binary_rules
    held = code.ptx if _reads(knowledge, maker, driver) else frozenset()
    if target.suffix:
        return "native" if target in code.cubins else "ptx" if target in held else ""
    if any(_plain(cubin) == target for cubin in code.cubins):
        return "native"
    if any(_runs(rules, cubin, target, maker) for cubin in code.cubins):
        return "compatible"
    return "ptx" if any(_finishes(rules, ptx, target) for ptx in held) else ""


def targets_of(library: str, targets: Sequence[Arch]) -> tuple[Arch, ...]:
    """Return the targets that a library must cover: the one in its name (`_120_C`; tiny-cuda-nn
    builds one library for each), else all.
    """
    named = re.match(r"_(\d{2,3})_C(?:\.|$)", library)
    own = tuple(target for target in targets if named and target.sm == f"sm_{named[1]}")
    return own or tuple(targets)


def driver_isa(knowledge: Knowledge, driver_cuda: str) -> tuple[int, ...]:
    """The newest PTX ISA that a driver is known to read; `driver_cuda` is the CUDA release it is
    for, as nvidia-smi shows it.

    A release that is not in the table counts as the one before it: (0, 0) before the first. Source:
    `ptx_isa` of toolkits.yaml.
    """
    older = [
        kit for kit in knowledge.toolkits.values() if numbers(kit.cuda) <= numbers(driver_cuda)
    ]
    return max((numbers(kit.ptx_isa) for kit in older), default=(0, 0))


def _reads(knowledge: Knowledge, maker: str | None, driver: str | None) -> bool:
    """Minor-version compatibility, by which cubins of 12.8 run with a driver for 12.0, is not for
    PTX.
    """
    if maker is None or driver is None or numbers(driver) >= numbers(maker):
        return True
    made = knowledge.toolkits.get(major_minor(maker))
    return made is not None and numbers(made.ptx_isa) <= driver_isa(knowledge, driver)


def _plain(arch: Arch) -> Arch:
    return Arch(arch.major, arch.minor)


def _runs(rules: BinaryRules, cubin: Arch, target: Arch, maker: str | None) -> bool:
    if cubin.suffix:
        return target in rules.families.get(cubin, ())
    if chip := rules.integrated.get(target):
        later = maker is not None and chip.since and numbers(maker) >= numbers(chip.since)
        return cubin in chip.runs or (bool(later) and cubin in chip.runs_since)
    if cubin in rules.integrated:
        return False
    return cubin.major == target.major and cubin.minor <= target.minor


def _finishes(rules: BinaryRules, ptx: Arch, target: Arch) -> bool:
    if ptx.suffix == "a":
        return _plain(ptx) == target
    if ptx.suffix == "f":
        return target in rules.families.get(ptx, ())
    return ptx <= target
