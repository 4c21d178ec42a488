from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tasks.knowledge import load
from tasks.knowledge.archs import (
    MachineCode,
    covers,
    how,
)
from tasks.model import Arch

KNOWLEDGE = load(Path(__file__).parents[2] / "config" / "knowledge")
DIFFERENCES: list[dict[str, Any]] = KNOWLEDGE.pytorch_notes["arch_list_differences"]


def archs(text: str) -> list[Arch]:
    return [Arch.parse(item) for item in text.split()]


def code(cubins: str = "", ptx: str = "") -> MachineCode:
    return MachineCode(frozenset(archs(cubins)), frozenset(archs(ptx)))


@pytest.mark.parametrize(
    ("cubins", "target", "expected"),
    [
        ("12.0", "12.0", "native"),
        ("12.0", "12.1", "compatible"),
        ("12.1", "12.0", ""),
        ("8.6", "8.9", "compatible"),
        ("8.9", "8.6", ""),
        ("8.0", "9.0", ""),
        ("8.6", "12.0", ""),
        ("8.9", "12.0", ""),
        ("9.0", "12.0", ""),
        ("10.0", "12.0", ""),
        ("12.0", "10.0", ""),
        ("10.0", "10.3", "compatible"),
        ("6.0", "6.1", "compatible"),
        ("8.0", "8.7", ""),
        ("8.6", "8.7", ""),
        ("8.7", "8.7", "native"),
        ("8.7", "8.9", ""),
        ("10.0", "10.1", ""),
        ("11.0", "10.1", "compatible"),
        ("12.0a", "12.0", "native"),
        ("12.0a", "12.1", ""),
        ("9.0a", "9.0", "native"),
        ("12.0f", "12.1", "compatible"),
        ("10.0f", "10.3", "compatible"),
        ("10.0f", "10.7", "compatible"),
        ("10.0f", "11.0", ""),
        ("10.3f", "10.0", ""),
        ("12.1f", "12.0", ""),
        ("9.0", "9.0a", ""),
        ("9.0a", "9.0a", "native"),
    ],
)
def test_a_cubin_runs_on_its_own_major_from_its_minor_up(
    cubins: str, target: str, expected: str
) -> None:
    assert how(code(cubins), Arch.parse(target)) == expected
    assert covers(code(cubins), Arch.parse(target)) is bool(expected)


@pytest.mark.parametrize(
    ("ptx", "target", "runs"),
    [
        ("5.0", "12.0", True),
        ("9.0", "12.0", True),
        ("9.0", "11.0", True),
        ("10.0", "12.0", True),
        ("12.0", "10.0", False),
        ("12.0", "11.0", False),
        ("12.0", "12.1", True),
        ("9.0a", "10.0", False),
        ("9.0a", "9.0", True),
        ("12.0a", "12.1", False),
        ("12.0f", "12.1", True),
        ("10.0f", "11.0", False),
        ("8.0", "8.7", True),
    ],
)
def test_plain_ptx_is_finished_for_any_later_card(ptx: str, target: str, runs: bool) -> None:
    assert how(code(ptx=ptx), Arch.parse(target)) == ("ptx" if runs else "")


def test_finished_code_is_preferred_to_ptx() -> None:
    both = code("8.6 9.0", "9.0")
    assert [how(both, arch) for arch in archs("9.0 8.9 12.0")] == ["native", "compatible", "ptx"]
