"""The part of docs/knowledge.md that tells of cards, by generation. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tasks.core.model import Arch
from tasks.knowledge import Knowledge
from tasks.knowledge.covers import classify_compatibility
from tasks.knowledge.facts import OfficialWheel, Release
from tasks.knowledge.gpus import shorten_gpu_name
from tasks.knowledge.versions import parse_major_minor

Platform = tuple[str, str]  # a system and a machine


def format_evidence_mark(status: str) -> str:
    """How well a fact is known, as a sign."""
    return "✓" if status.startswith("verified") else "?"


def format_markdown_table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    first = list(head)
    lines = [first, ["---"] * len(first), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def render_generations(knowledge: Knowledge) -> Iterator[str]:
    """A section for each, newest first: a table of its capabilities, and its cards folded away."""
    for family in reversed(knowledge.families):
        archs = sorted(family.archs, reverse=True)
        yield f"## {family.name} {format_evidence_mark(family.status)}\n"
        yield format_markdown_table(
            ("capability", "CUDA", "its driver", "first torch", "Linux", "Windows", "Linux on ARM"),
            (_build_capability_row(knowledge, arch) for arch in archs),
        )
        cards = [folded for arch in archs if (folded := _render_gpu_list(knowledge, arch))]
        yield from cards or ["No card of it is among these facts.\n"]


def _build_capability_row(knowledge: Knowledge, arch: Arch) -> tuple[str, ...]:
    board = arch in knowledge.binary_rules.integrated
    desk = ("linux", "x86_64"), ("windows", "x86_64")
    arm = ("linux", "aarch64")
    return (
        f"**{arch}** `{arch.sm}`",
        _format_toolkit_range(knowledge, arch),
        _format_first_driver(knowledge, arch),
        _format_first_wheel(knowledge, arch, arm if board else desk[0]),
        *("–" if board else _format_newest_wheel(knowledge, arch, place) for place in desk),
        _format_newest_wheel(knowledge, arch, arm),
    )


def _format_toolkit_range(knowledge: Knowledge, arch: Arch) -> str:
    """`12.8 ✓ and later`, `11.8 or before, to 12.9 ✓`."""
    able = [cuda for cuda, kit in knowledge.toolkits.items() if arch in kit.makes]
    first = knowledge.toolkit_notes["first_toolkit"].get(str(arch))
    begin = (
        f"{first['cuda']} {format_evidence_mark(first['status'])}"
        if first
        else f"{able[0]} or before"
    )
    if able[-1] == list(knowledge.toolkits)[-1]:
        return f"{begin} and later"
    return f"{begin}, to {able[-1]} {format_evidence_mark(knowledge.toolkits[able[-1]].status)}"


def _format_first_driver(knowledge: Knowledge, arch: Arch) -> str:
    """The driver that came with the first CUDA, for Linux and for Windows."""
    first = knowledge.toolkit_notes["first_toolkit"].get(str(arch), {}).get("cuda", "")
    row = knowledge.toolkit_notes["releases"].get(first, {}).get("driver")
    if not row or not row["linux"]:
        return "–"
    windows = f", Windows {row['windows']}" if row["windows"] else ""
    return f"{row['linux']}{windows} {format_evidence_mark(row['status'])}"


def _format_first_wheel(knowledge: Knowledge, arch: Arch, place: Platform) -> str:
    found = next(_list_fitting_wheels(knowledge, arch, place), None)
    return f"{found[0].minor}, {_format_wheel_index(found[1], arch)}" if found else "none"


def _format_newest_wheel(knowledge: Knowledge, arch: Arch, place: Platform) -> str:
    found = list(_list_fitting_wheels(knowledge, arch, place))
    return f"{found[-1][0].patch}, {_format_wheel_index(found[-1][1], arch)}" if found else "none"


def _list_fitting_wheels(
    knowledge: Knowledge, arch: Arch, place: Platform
) -> Iterator[tuple[Release, OfficialWheel]]:
    """Each release with the wheel to take for that card: PyPI's, else that of the newest CUDA."""
    for release in knowledge.releases.values():
        fit = [
            wheel
            for wheel in release.wheels
            if (wheel.system, wheel.machine) == place
            and classify_compatibility(knowledge, wheel.code, arch, maker=wheel.cuda)
            in {"native", "compatible"}
        ]
        if fit:
            yield release, max(fit, key=lambda wheel: (wheel.pypi, parse_major_minor(wheel.cuda)))


def _format_wheel_index(wheel: OfficialWheel, arch: Arch) -> str:
    """`PyPI (13.2) ✓`, `cu128 by sm_120 ?`: where it is, and which code the card runs."""
    index = f"PyPI ({wheel.cuda})" if wheel.pypi else f"cu{wheel.cuda.replace('.', '')}"
    held = [code for code in wheel.code.cubins if code.major == arch.major and code <= arch]
    other = "" if arch in held or not held else f" by `{max(held).sm}`"
    return f"{index}{other} {format_evidence_mark(wheel.status)}"


def _render_gpu_list(knowledge: Knowledge, arch: Arch) -> str:
    found = [gpu for gpu in knowledge.gpus if gpu.arch == arch]
    if not found:
        return ""
    names = " · ".join(
        f"{shorten_gpu_name(gpu.name)} {format_evidence_mark(gpu.status)}" for gpu in found
    )
    count = f"{len(found)} cards" if len(found) > 1 else "one card"
    return f"<details><summary>{arch}: {count}</summary>\n\n{names}\n\n</details>\n"
