"""Known failures are reported before a source build, and only then."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tasks.planning.warnings import list_capability_warnings, list_known_bad_warnings
from tests.support.checkout import HOST, KNOWLEDGE, opened, write

OLD = """
target: {{gpus: ["12.0"]}}
toolkit: {{version: "13.0"}}
torch: {{strategy: {strategy}, version: "{torch}"}}
"""


def warnings(yard: Path, strategy: str, torch: str) -> list[str]:
    write(yard, OLD.format(strategy=strategy, torch=torch))
    profile = opened(yard).opened
    assert profile
    return list(list_known_bad_warnings(KNOWLEDGE, HOST, profile.choice))


def test_release_that_fails_to_configure_with_toolkit_is_warned_about(yard: Path) -> None:
    result = warnings(yard, "source", "2.6.0")
    assert all(text.startswith("known not to work: ") for text in result)
    assert [text for text in result if "nvToolsExt" in text and "To fix it: use torch 2.8" in text]
    assert [text for text in result if "cub's Sum" in text]


@pytest.mark.parametrize(("strategy", "torch"), [("source", "2.15.0"), ("prebuilt", "2.9.1")])
def test_known_good_combination_has_no_warning(yard: Path, strategy: str, torch: str) -> None:
    assert not warnings(yard, strategy, torch)


@pytest.mark.parametrize("strategy", ["prebuilt", "source"])
def test_embedded_capability_on_other_machine_type_is_warned_about(
    yard: Path, strategy: str
) -> None:
    write(yard, f"target: {{gpus: ['8.7', '12.0']}}\ntorch: {{strategy: {strategy}}}\n")
    profile = opened(yard).opened
    assert profile
    (result,) = list_known_bad_warnings(KNOWLEDGE, HOST, profile.choice)
    assert result.startswith("8.7 exists only in aarch64 machines (Orin (nvgpu), Jetson AGX Orin, ")
    assert result.endswith("and this one is Linux x86_64: what is built here does not run on them")
    assert not list(
        list_known_bad_warnings(KNOWLEDGE, replace(HOST, machine="aarch64"), profile.choice)
    )


NOBODY = replace(HOST, gpus=())


@pytest.mark.parametrize(
    ("gpus", "message"),
    [
        ('["8.9"]', "8.9 is RTX 40 series, L4, L40, L40S and others; the RTX 50 series is 12.0"),
        ('["sm_100"]', "10.0 is B200, GB200, B100; the RTX 50 series is 12.0"),
        ('["10.7"]', "10.7 is Rubin; "),
        ('["8.8"]', "8.8 is no known GPU; "),
        ('["12.0"]', ""),  # the assumption of auto
        ('["9.0a"]', ""),  # a suffix is intended
        ('["8.9", "12.0"]', ""),  # an explicit list is intended
        ('["RTX 4090"]', ""),
        ("[]", ""),
        ("auto", ""),
    ],
)
def test_single_capability_without_visible_gpu_warns_with_its_gpus(
    yard: Path, gpus: str, message: str
) -> None:
    write(yard, f"target: {{gpus: {gpus}}}\n")
    profile = opened(yard, on=NOBODY).opened
    assert profile
    warned = " ".join(list_capability_warnings(profile.loaded, NOBODY, KNOWLEDGE))
    assert message in warned
    assert bool(message) == bool(warned)
    assert not list(list_capability_warnings(profile.loaded, HOST, KNOWLEDGE)), "a GPU is seen"
    cell = replace(profile.loaded, profile="mine@cell")
    assert not list(list_capability_warnings(cell, NOBODY, KNOWLEDGE)), "a matrix lists on purpose"
