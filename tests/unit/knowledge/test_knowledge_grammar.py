"""Archs formatted for each tool, and the user's arch lists parsed."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tasks.core.errors import KnowledgeError
from tasks.core.model import Arch
from tasks.knowledge.arch_lists import (
    format_cmake_archs,
    format_torch_archs,
    parse_cmake_archs,
    parse_torch_archs,
    require_covered_targets,
)
from tasks.knowledge.machine_code_rules import (
    MachineCode,
    is_cmake_arch_supported,
    is_extension_arch_supported,
)
from tests.support.checkout import KNOWLEDGE
from tests.support.newest import NEXT_TORCH
from tests.support.rows import each_row

DIFFERENCES: list[dict[str, Any]] = KNOWLEDGE.pytorch_notes["arch_list_differences"]
RELEASES = list(KNOWLEDGE.releases)
MADE = sorted({arch for kit in KNOWLEDGE.toolkits.values() for arch in kit.makes})

some_archs = st.sets(st.sampled_from(MADE), min_size=1)
release = st.sampled_from(RELEASES)


def archs(text: str) -> list[Arch]:
    return [Arch.parse_capability(item) for item in text.split()]


def highest_plain(targets: set[Arch]) -> Arch | None:
    return max((arch for arch in targets if not arch.suffix), default=None)


def code(targets: set[Arch], ptx: bool) -> MachineCode:
    highest = highest_plain(targets)
    return MachineCode(frozenset(targets), frozenset([highest] if highest and ptx else []))


def test_arch_list_is_sorted_without_duplicates() -> None:
    assert format_torch_archs(KNOWLEDGE, "2.15", archs("12.0 8.9 12.0")) == "8.9;12.0"
    assert (
        format_torch_archs(KNOWLEDGE, "2.15", archs("12.0f 9.0a 9.0"), cmake=True)
        == "9.0;9.0a;12.0f"
    )


def test_ptx_is_added_to_highest_arch_without_suffix() -> None:
    mixed = archs("12.0a 12.0 8.9")
    assert format_torch_archs(KNOWLEDGE, "2.15", mixed, ptx=True) == "8.9;12.0+PTX;12.0a"
    assert format_torch_archs(KNOWLEDGE, "2.15", archs("10.0 9.0 12.0f"), ptx=True, cmake=True) == (
        "9.0;10.0+PTX;12.0f"
    )
    assert format_cmake_archs(mixed, ptx=True) == "89-real;120;120a-real"


@pytest.mark.parametrize(
    "write",
    [
        partial(format_torch_archs, KNOWLEDGE, "2.15"),
        partial(format_torch_archs, KNOWLEDGE, "2.15", cmake=True),
        format_cmake_archs,
    ],
)
def test_empty_list_and_useless_ptx_are_never_written(
    write: Callable[[list[Arch], bool], object],
) -> None:
    with pytest.raises(KnowledgeError, match="the GPUs of the build machine"):
        write([], False)
    with pytest.raises(
        KnowledgeError, match=r"PTX for 12\.0a does not run on later GPUs"
    ) as caught:
        write(archs("12.0a"), True)
    assert 'add "12.0" to target.gpus' in caught.value.hint


@pytest.mark.parametrize(
    ("torch", "arch", "todo"),
    [
        (
            "2.6.0",
            "12.0",
            "choose a newer torch (2.7 is the first that builds extensions for 12.0)",
        ),
        (
            "2.7.1",
            "12.1",
            "choose a newer torch (2.8 is the first that builds extensions for 12.1)",
        ),
        ("2.9", "10.1", "choose an older torch (2.8 is the last that builds extensions for 10.1)"),
        ("2.15.0", "12.0f", 'write "12.0"'),
        (
            "2.15.0",
            "8.8",
            "build for another arch or without extensions: no known torch builds them for 8.8",
        ),
    ],
)
def test_arch_unknown_to_extension_builder_is_refused_with_hint(
    torch: str, arch: str, todo: str
) -> None:
    with pytest.raises(KnowledgeError, match=f"torch {torch} does not accept {arch}") as caught:
        format_torch_archs(KNOWLEDGE, torch, archs(arch))
    assert caught.value.hint == todo


@pytest.mark.parametrize(
    ("torch", "arch", "todo"),
    [
        ("2.5.1", "12.0", "choose a newer torch (2.6 is the first that accepts 12.0)"),
        (
            "2.3",
            "9.0a",
            'choose a newer torch (2.4 is the first that accepts 9.0a), or write "9.0"',
        ),
        ("2.5", "12.0f", "choose a newer torch (2.9 is the first that accepts 12.0f)"),
    ],
)
def test_arch_unknown_to_torch_cmake_is_refused_with_hint(torch: str, arch: str, todo: str) -> None:
    with pytest.raises(KnowledgeError, match=f"{arch} for its source build") as caught:
        format_torch_archs(KNOWLEDGE, torch, archs(arch), cmake=True)
    assert caught.value.hint == todo


@given(release, some_archs, st.booleans())
def test_list_for_extension_builder_is_parsed_back(
    torch: str, targets: set[Arch], ptx: bool
) -> None:
    accepted = {arch for arch in targets if is_extension_arch_supported(KNOWLEDGE, torch, arch)}
    assume(accepted and (highest_plain(accepted) or not ptx))
    text = format_torch_archs(KNOWLEDGE, torch, accepted, ptx)
    assert parse_torch_archs(KNOWLEDGE, torch, text) == code(accepted, ptx)
    assert not re.search(r"f|^;|;$|;;", text)
    if targets != accepted:
        with pytest.raises(KnowledgeError):
            format_torch_archs(KNOWLEDGE, torch, targets, ptx)


@given(release, some_archs, st.booleans())
def test_list_for_torch_cmake_is_parsed_back(torch: str, targets: set[Arch], ptx: bool) -> None:
    accepted = {arch for arch in targets if is_cmake_arch_supported(KNOWLEDGE, torch, arch)}
    assume(accepted and (highest_plain(accepted) or not ptx))
    text = format_torch_archs(KNOWLEDGE, torch, accepted, ptx, cmake=True)
    assert parse_torch_archs(KNOWLEDGE, torch, f"{text}; ", cmake=True) == code(accepted, ptx)


@given(some_archs, st.booleans())
def test_cmake_architectures_match_the_targets(targets: set[Arch], ptx: bool) -> None:
    assume(highest_plain(targets) or not ptx)
    items = format_cmake_archs(targets, ptx).split(";")
    both = [Arch.parse_capability(f"sm_{item}") for item in items if not item.endswith("-real")]
    real = [Arch.parse_capability(f"sm_{item.removesuffix('-real')}") for item in items]
    assert MachineCode(frozenset(real), frozenset(both)) == code(targets, ptx)


@each_row(
    ("text", "what"),
    [
        ("", "the arch list is empty, which means the GPUs of the build machine"),
        (" ", "the arch list is empty, which means the GPUs of the build machine"),
        ("9.0;", "empty item, on which torch's extension builder fails"),
        ("9.0;;12.0", "empty item"),
        ("9.0; 12.0", "empty item"),
        ("native", '"native" means the GPUs of the build machine'),
        ("All", '"All" is for CMake only'),
        ("Common", '"Common" is for CMake only'),
        ("Auto", '"Auto" means the GPUs'),
        ("Blackwell", '"Blackwell" means other archs in each torch release'),
        ("Hopper+PTX", '"Hopper" means other archs'),
        ("Blackwell+Tegra", "means other archs"),
        ("8.9,12.0", '"8.9,12.0" in the arch list'),
        ("sm_120", '"sm_120" in the arch list'),
        ("12.0f", "does not accept 12.0f"),
        ("8.8", "does not accept 8.8"),
        ("12.0+PTX+PTX", "cannot read"),
    ],
)
def test_user_list_without_explicit_archs_is_refused(text: str, what: str) -> None:
    with pytest.raises(KnowledgeError, match=re.escape(what)) as caught:
        parse_torch_archs(KNOWLEDGE, "2.15.0", text)
    assert caught.value.hint


@pytest.mark.parametrize(("text", "meant"), [("sm_120", "12.0"), ("90a", "9.0a"), ("89", "8.9")])
def test_spelling_of_another_tool_is_refused_with_the_right_one(text: str, meant: str) -> None:
    with pytest.raises(KnowledgeError) as caught:
        parse_torch_archs(KNOWLEDGE, "2.15.0", text)
    assert caught.value.hint == f'write "{meant}"'


def test_user_list_is_parsed_as_each_tool_parses_it() -> None:
    both = MachineCode(frozenset(archs("8.9 12.0")), frozenset(archs("8.9")))
    assert parse_torch_archs(KNOWLEDGE, "2.7", "8.9+PTX 12.0") == both
    assert parse_torch_archs(KNOWLEDGE, "2.7", " 8.9+PTX;\t12.0;; ", cmake=True) == both
    assert parse_torch_archs(KNOWLEDGE, "2.9", "12.0f", cmake=True).cubins == frozenset(
        archs("12.0f")
    )


@pytest.mark.parametrize(
    ("cuda", "text", "cubins", "ptx"),
    [
        ("13.0", "89-real;120", "8.9 12.0", "12.0"),
        ("13.0", "90a-virtual", "", "9.0a"),
        ("13.0", "all-major", "7.5 8.0 9.0 10.0 11.0 12.0", "12.0"),
        ("12.4", "all-major", "5.0 6.0 7.0 8.0 9.0", "9.0"),
        ("13.0", "all", "7.5 8.0 8.6 8.7 8.8 8.9 9.0 10.0 10.3 11.0 12.0 12.1", "12.0"),
    ],
)
def test_cmake_list_is_parsed_as_cmake_and_nvcc_do(
    cuda: str, text: str, cubins: str, ptx: str
) -> None:
    held = MachineCode(frozenset(archs(cubins)), frozenset(archs(ptx)))
    assert parse_cmake_archs(KNOWLEDGE, cuda, text) == held


def test_cmake_list_left_to_the_project_names_no_arch() -> None:
    assert parse_cmake_archs(KNOWLEDGE, "13.0", "OFF") is None


@pytest.mark.parametrize("text", ["", "native", "All", "12.0", "90;", "sm_90", "90 120"])
def test_machine_dependent_cmake_list_is_refused(text: str) -> None:
    with pytest.raises(KnowledgeError, match="the same on every machine") as caught:
        parse_cmake_archs(KNOWLEDGE, "13.0", text)
    assert "89-real;120-real" in caught.value.hint


def test_list_that_omits_a_target_is_refused() -> None:
    held = parse_torch_archs(KNOWLEDGE, "2.15", "9.0;8.6")
    require_covered_targets(KNOWLEDGE, held, archs("8.9 9.0"), "9.0;8.6")
    with pytest.raises(KnowledgeError, match=r'"9.0;8.6" leaves out 12.0 of target.gpus'):
        require_covered_targets(KNOWLEDGE, held, archs("8.9 12.0"), "9.0;8.6")


@each_row(
    ("torch", "arch", "accepted"),
    [
        ("1.13", "8.7", False),
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
        ("2.15.0+cu132", "12.0", True),
        (f"{NEXT_TORCH}.dev20261101", "12.0", True),
    ],
)
def test_extension_builder_accepts_only_its_own_table(
    torch: str, arch: str, accepted: bool
) -> None:
    assert is_extension_arch_supported(KNOWLEDGE, torch, Arch.parse_capability(arch)) is accepted


@each_row("torch", RELEASES)
def test_releases_accept_12_0_since_2_7_and_never_a_family_arch(torch: str) -> None:
    minor = int(torch.partition(".")[2])
    assert is_extension_arch_supported(KNOWLEDGE, torch, Arch(12, 0)) is (minor >= 7)
    assert not [
        a for a in MADE if a.suffix == "f" and is_extension_arch_supported(KNOWLEDGE, torch, a)
    ]


@each_row(("row", "torch"), [(row, release) for row in DIFFERENCES for release in row["releases"]])
def test_differences_between_both_parsers_are_respected(row: dict[str, Any], torch: str) -> None:
    if not re.fullmatch(r"\d+\.\d[af]?", row["input"]):
        with pytest.raises(KnowledgeError):
            parse_torch_archs(KNOWLEDGE, torch, row["input"])
        return
    arch = Arch.parse_capability(row["input"])
    assert is_extension_arch_supported(KNOWLEDGE, torch, arch) is row["cpp_extension"]
    assert is_cmake_arch_supported(KNOWLEDGE, torch, arch) is row["cmake"]


def test_cmake_supports_two_digits_and_suffixes_since_different_versions() -> None:
    assert not is_cmake_arch_supported(KNOWLEDGE, "2.3", Arch.parse_capability("9.0a"))
    assert is_cmake_arch_supported(KNOWLEDGE, "2.4", Arch.parse_capability("9.0a"))
    assert not is_cmake_arch_supported(KNOWLEDGE, "2.5", Arch.parse_capability("12.0"))
    assert not is_cmake_arch_supported(KNOWLEDGE, "2.8", Arch.parse_capability("12.0f"))
    assert is_cmake_arch_supported(KNOWLEDGE, "2.10", Arch.parse_capability("12.0f"))
