from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.errors import KnowledgeError
from tasks.knowledge import load
from tasks.knowledge.archs import (
    arch_list,
    cmake_accepts,
    cmake_archs,
    extension_accepts,
    read_arch_list,
)
from tasks.model import Arch

KNOWLEDGE = load(Path(__file__).parents[2] / "config" / "knowledge")
DIFFERENCES: list[dict[str, Any]] = KNOWLEDGE.pytorch_notes["arch_list_differences"]


def archs(text: str) -> list[Arch]:
    return [Arch.parse(item) for item in text.split()]


def test_an_arch_list_is_sorted_by_number_with_ptx_on_the_last() -> None:
    assert arch_list(archs("12.0 8.9")) == "8.9;12.0"
    assert arch_list(archs("12.0 8.9 12.0"), ptx=True) == "8.9;12.0+PTX"
    assert arch_list(archs("9.0a 9.0")) == "9.0;9.0a"
    assert arch_list([]) == arch_list([], ptx=True) == ""


def test_a_family_arch_cannot_be_in_an_arch_list() -> None:
    with pytest.raises(KnowledgeError, match=r"12\.0f"):
        arch_list(archs("12.0f"))


def test_an_arch_list_that_both_parsers_read_alike_is_read() -> None:
    assert read_arch_list("8.9;12.0+PTX") == (tuple(archs("8.9 12.0")), True)
    assert read_arch_list("9.0a") == (tuple(archs("9.0a")), False)


@pytest.mark.parametrize(
    "text",
    ["9.0;", "", "native", "Blackwell", "8.9,12.0", "8.9 12.0", "8.9+PTX;12.0", "120", "12.0f"],
)
def test_an_arch_list_that_they_read_differently_is_refused(text: str) -> None:
    with pytest.raises(KnowledgeError, match="arch list"):
        read_arch_list(text)


@given(st.sets(st.sampled_from(archs("7.5 8.0 8.6 8.9 9.0 9.0a 10.0 12.0 12.0a 12.1")), min_size=1))
def test_what_is_written_is_read_back(targets: set[Arch]) -> None:
    assert read_arch_list(arch_list(targets)) == (tuple(sorted(targets)), False)
    assert read_arch_list(arch_list(targets, ptx=True)) == (tuple(sorted(targets)), True)


def test_cmake_archs_name_real_code_and_end_with_ptx_when_asked() -> None:
    assert cmake_archs(archs("12.0 8.9")) == "89-real;120-real"
    assert cmake_archs(archs("12.0 8.9"), ptx=True) == "89-real;120"
    assert cmake_archs(archs("9.0a")) == "90a-real"
    assert cmake_archs([]) == ""


@pytest.mark.parametrize(
    ("release", "arch", "accepted"),
    [
        ("2.5", "12.0", False),
        ("2.6", "12.0", False),
        ("2.6", "10.0", True),
        ("2.7", "12.0", True),
        ("2.7.1", "12.0a", True),
        ("2.7", "12.1", False),
        ("2.8", "12.1", True),
        ("2.8", "10.1", True),
        ("2.9", "10.1", False),
        ("2.9", "11.0", True),
        ("2.13", "10.7", False),
        ("2.14", "10.7", True),
        ("2.15", "12.0f", False),
        ("2.15", "8.8", False),
        ("2.0", "8.7", False),
        ("2.1", "8.7", True),
        ("2.1", "9.0a", False),
        ("2.2", "9.0a", True),
        ("2.16.0.dev20261101", "12.0", True),
    ],
)
def test_the_extension_builder_takes_only_its_own_table(
    release: str, arch: str, accepted: bool
) -> None:
    assert extension_accepts(KNOWLEDGE, release, Arch.parse(arch)) is accepted


@pytest.mark.parametrize(
    ("row", "release"), [(row, release) for row in DIFFERENCES for release in row["releases"]]
)
def test_where_the_two_parsers_differ(row: dict[str, Any], release: str) -> None:
    try:
        arch = Arch.parse(row["input"])
    except KnowledgeError:
        with pytest.raises(KnowledgeError):
            read_arch_list(row["input"])
        return
    assert extension_accepts(KNOWLEDGE, release, arch) is row["cpp_extension"]
    assert cmake_accepts(KNOWLEDGE, release, arch) is row["cmake"]


def test_the_differences_are_all_there() -> None:
    assert [row["input"] for row in DIFFERENCES] == [
        *("12.0", "12.0", "12.0", "12.1", "12.1", "12.0f", "9.0;", "native", "Blackwell")
    ]


def test_cmake_learned_suffixes_and_two_digits_in_turn() -> None:
    assert not cmake_accepts(KNOWLEDGE, "2.3", Arch.parse("9.0a"))
    assert cmake_accepts(KNOWLEDGE, "2.4", Arch.parse("9.0a"))
    assert not cmake_accepts(KNOWLEDGE, "2.5", Arch.parse("12.0"))
    assert not cmake_accepts(KNOWLEDGE, "2.8", Arch.parse("12.0f"))
    assert cmake_accepts(KNOWLEDGE, "2.10", Arch.parse("12.0f"))
