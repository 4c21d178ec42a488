"""Machine code by arch, and which archs each release of torch takes.

How to write them is in `grammar`, what runs where in `covers`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tasks.core.model import Arch
from tasks.knowledge.versions import parse_major_minor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tasks.knowledge.load import Knowledge


@dataclass(frozen=True)
class MachineCode:
    """What a binary holds: finished code for some archs, and PTX that a driver can finish."""

    cubins: frozenset[Arch] = frozenset()
    ptx: frozenset[Arch] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        """The archs in order, then those of PTX: "9.0", "12.0", "12.0+PTX"."""
        return (*map(str, sorted(self.cubins)), *(f"{arch}+PTX" for arch in sorted(self.ptx)))


def is_extension_arch_supported(knowledge: Knowledge, torch_release: str, arch: Arch) -> bool:
    """Whether torch.utils.cpp_extension of that release takes `arch`.

    A release before or past the table counts as its oldest or newest. Source: `extension_archs` of
    pytorch.yaml.
    """
    rows = knowledge.pytorch_notes["extension_archs"]
    wanted = parse_major_minor(torch_release)
    begun = [row for row in rows if parse_major_minor(row["releases"][0]) <= wanted]
    return str(arch) in (begun or rows)[-1 if begun else 0]["archs"]


def format_extension_arch_hint(knowledge: Knowledge, torch_release: str, arch: Arch) -> str:
    """What to do where that release does not take `arch`: another torch, or another arch."""
    able = [
        release
        for row in knowledge.pytorch_notes["extension_archs"]
        for release in row["releases"]
        if str(arch) in row["archs"]
    ]
    later = [
        release for release in able if parse_major_minor(release) > parse_major_minor(torch_release)
    ]
    if later:
        return f"choose a newer torch ({later[0]} is the first that builds extensions for {arch})"
    if able:
        return f"choose an older torch ({able[-1]} is the last that builds extensions for {arch})"
    if arch.suffix:
        return f'write "{arch.major}.{arch.minor}"'
    return "no known torch does: build for another arch, or without extensions"


def is_cmake_arch_supported(knowledge: Knowledge, torch_release: str, arch: Arch) -> bool:
    """Whether CMake's find_package(Torch) of that release takes `arch`; nvcc may still refuse.

    Source: `cmake_archs` of pytorch.yaml.
    """
    needed = find_first_cmake_release(knowledge, [arch])
    return needed is None or parse_major_minor(torch_release) >= parse_major_minor(needed)


def find_first_cmake_release(knowledge: Knowledge, archs: Sequence[Arch]) -> str | None:
    """The first release of torch whose CMake takes all of `archs`, None where any does."""
    since = knowledge.pytorch_notes["cmake_archs"]
    needed = [since[f"{arch.suffix}_suffix_since"] for arch in archs if arch.suffix]
    needed += [since["two_digit_majors_since"] for arch in archs if arch.major >= 10]
    return max(needed, key=parse_major_minor, default=None)
