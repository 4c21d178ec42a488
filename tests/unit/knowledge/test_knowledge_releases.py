from __future__ import annotations

from pathlib import Path

import pytest

from tasks.core.errors import KnowledgeError
from tasks.knowledge.knowledge_files_io import load_knowledge
from tasks.knowledge.torch_releases import find_release, is_python_supported, list_nearest_releases
from tests.support.newest import (
    LATER_PATCH,
    LATER_TORCH,
    NEWEST_RELEASE,
    NEXT_MINOR,
    NEXT_TORCH,
    PREVIOUS_RELEASE,
)

KNOWLEDGE = load_knowledge(Path(__file__).parents[3] / "config" / "knowledge")
WHL = "https://download.pytorch.org/whl"


@pytest.mark.parametrize("version", ["2.7", "2.7.0", "v2.7.1", "2.7.1+cu128", " 2.7.1 "])
def test_version_is_found_by_its_minor(version: str) -> None:
    assert find_release(KNOWLEDGE, version).minor == "2.7"


def test_release_lists_its_build_requirements() -> None:
    new, old = find_release(KNOWLEDGE, "2.15"), find_release(KNOWLEDGE, "2.6.0")
    assert (new.backend, new.cxx_std, new.cmake_min, new.cmake_below) == (
        "scikit_build_core",
        20,
        "3.27",
        "",
    )
    assert (old.backend, old.cxx_std, old.cmake_min, old.cmake_below) == (
        "setup_py",
        17,
        "3.18",
        "4.0",
    )
    assert (new.setuptools, new.torchvision, new.torchaudio, new.triton) == (
        ">=77.0.3",
        "==0.29.2",
        "",
        "~=3.9.0",
    )
    assert (old.setuptools, old.torchaudio, old.gcc_min, new.gcc_min) == (
        "",
        "==2.6.0",
        "9.3",
        "11.3",
    )


def test_build_backend_changed_with_2_14() -> None:
    backends = {minor: found.backend for minor, found in KNOWLEDGE.releases.items()}
    assert backends["2.13"] == "setup_py"
    assert backends["2.14"] == "scikit_build_core"


@pytest.mark.parametrize("suffix", [".dev20261101", ".dev20261101+cu132", "a0+git1a2b"])
def test_next_release_is_treated_like_the_newest(suffix: str) -> None:
    found = find_release(KNOWLEDGE, NEXT_TORCH + suffix)
    facts = (found.minor, bool(found.channel), found.cxx_std)
    assert facts == (NEXT_MINOR, True, NEWEST_RELEASE.cxx_std)
    assert found.status.startswith("unverified")


@pytest.mark.parametrize(
    ("version", "minor", "patch", "known"),
    [
        (NEXT_TORCH, NEXT_MINOR, NEXT_TORCH, NEWEST_RELEASE.patch),
        (NEXT_MINOR, NEXT_MINOR, NEXT_TORCH, NEWEST_RELEASE.patch),
        (f"v{LATER_TORCH}+cu132", LATER_TORCH[:3], LATER_TORCH, NEWEST_RELEASE.patch),
        (LATER_PATCH, NEWEST_RELEASE.minor, LATER_PATCH, NEWEST_RELEASE.patch),
        ("2.9.9", "2.9", "2.9.9", "2.9.1"),
    ],
)
def test_unknown_version_has_assumed_facts_of_the_nearest(
    version: str, minor: str, patch: str, known: str
) -> None:
    found, nearest = find_release(KNOWLEDGE, version), find_release(KNOWLEDGE, known)
    origin = f"assumed to be as {known}"
    assert (found.minor, found.patch, found.origin) == (minor, patch, origin)
    statuses = {found.status, *(wheel.status for wheel in found.wheels)}
    assert statuses == {f"unverified: {origin}"}
    assert (found.torchvision, found.torchaudio, found.triton) == ("", "", "")
    assert (found.cxx_std, found.pypi_cuda) == (nearest.cxx_std, nearest.pypi_cuda)
    assert [wheel.archs for wheel in found.wheels] == [wheel.archs for wheel in nearest.wheels]


@pytest.mark.parametrize("version", ["2.9", "2.9.0", "2.9.1", NEWEST_RELEASE.patch])
def test_facts_of_a_known_version_are_recorded(version: str) -> None:
    assert find_release(KNOWLEDGE, version).origin == ""


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("1.13.1", "older than 2.0"),
        ("main", "not a torch version"),
        ("1!2.9.0", "not a torch version"),
    ],
)
def test_impossible_version_is_refused_with_alternative(version: str, message: str) -> None:
    with pytest.raises(KnowledgeError, match=message) as caught:
        find_release(KNOWLEDGE, version)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("version", "python", "supported"),
    [
        ("2.15", "3.11.7", True),
        ("2.15", "3.10", False),
        ("2.15", "3.15", True),
        ("2.0", "3.12", False),
        ("2.6", "3.13", True),
    ],
)
def test_release_supports_a_range_of_pythons(version: str, python: str, supported: bool) -> None:
    assert is_python_supported(find_release(KNOWLEDGE, version), python) is supported


def test_nearest_releases_are_listed_newer_first() -> None:
    minors = list(KNOWLEDGE.releases)
    newer = minors[minors.index("2.12") + 1 :]
    nearest = [found.minor for found in list_nearest_releases(KNOWLEDGE, "2.12.1")]
    assert nearest[: len(newer) + 1] == [*newer, "2.11"]
    assert nearest[:3] == ["2.13", "2.14", "2.15"]
    newest = NEWEST_RELEASE.patch
    assert list_nearest_releases(KNOWLEDGE, newest)[0].minor == PREVIOUS_RELEASE.minor
    assert len(list_nearest_releases(KNOWLEDGE, "2.0.1")) == len(KNOWLEDGE.releases) - 1


@pytest.mark.parametrize("version", ["2.12.9", "v2.12.9+cu132", "2.12"])
def test_known_patch_is_nearest_to_an_unknown_one(version: str) -> None:
    nearest = [found.patch for found in list_nearest_releases(KNOWLEDGE, version)]
    assert nearest[:2] == ["2.12.1", "2.13.0"]
    assert len(nearest) == len(KNOWLEDGE.releases)
