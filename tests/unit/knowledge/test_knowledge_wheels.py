from __future__ import annotations

from pathlib import Path

import pytest

from tasks.core.model import Arch
from tasks.knowledge.knowledge_files_io import load_knowledge
from tasks.knowledge.torch_releases import (
    SelectedWheel,
    explain_missing_wheel,
    format_index_url,
    select_official_wheel,
)
from tests.support.checkout import RELEASE
from tests.support.newest import LATER_PATCH, NEWEST_RELEASE, NEXT_TORCH
from tests.support.rows import each_row

KNOWLEDGE = load_knowledge(Path(__file__).parents[3] / "config" / "knowledge")
WHL = "https://download.pytorch.org/whl"


def archs(text: str) -> list[Arch]:
    return [Arch.parse_capability(item) for item in text.split()]


def choose(
    version: str,
    targets: str,
    system: str = "linux",
    machine: str = "x86_64",
    cuda: str | None = None,
) -> SelectedWheel | None:
    return select_official_wheel(KNOWLEDGE, version, archs(targets), system, machine, cuda)


def why(
    version: str,
    targets: str,
    system: str = "linux",
    machine: str = "x86_64",
    cuda: str | None = None,
) -> str:
    assert choose(version, targets, system, machine, cuda) is None
    return explain_missing_wheel(KNOWLEDGE, version, archs(targets), system, machine, cuda)


def test_pypi_is_preferred_and_needs_no_index() -> None:
    assert choose(RELEASE, "12.0") == SelectedWheel(
        "13.2", "", f"PyPI's torch {RELEASE} (CUDA 13.2) holds sm_120"
    )


@each_row(
    ("version", "targets", "cuda", "index"),
    [
        ("2.7.1", "12.0", "12.8", f"{WHL}/cu128"),
        ("2.8.0", "12.0 8.9", "12.8", ""),
        ("2.8.0", "12.1", "12.8", ""),
        (RELEASE, "7.0", "12.6", f"{WHL}/cu126"),
        (RELEASE, "6.1", "12.6", f"{WHL}/cu126"),
        ("2.10.0", "7.0", "12.8", ""),
        ("2.11.0", "7.0", "12.6", f"{WHL}/cu126"),
        ("2.6.0", "9.0", "12.4", ""),
        (RELEASE, "9.0a", "13.2", ""),
        (RELEASE, "10.3", "13.2", ""),
    ],
)
def test_selected_wheel_has_machine_code_for_every_target(
    version: str, targets: str, cuda: str, index: str
) -> None:
    found = choose(version, targets)
    assert found is not None
    assert (found.cuda, found.index) == (cuda, index)


def test_requested_cuda_is_kept() -> None:
    found = choose(RELEASE, "12.0", cuda="13.4")
    assert found is not None
    assert found.index == f"{WHL}/cu134"
    assert choose(RELEASE, "12.0", cuda="13.2.86") == choose(RELEASE, "12.0", cuda="13.2")


def test_windows_cuda_wheels_are_not_on_pypi() -> None:
    found = choose(RELEASE, "12.0", "windows", "AMD64")
    assert found is not None
    assert found.index == f"{WHL}/cu132"


def test_arm_wheels_on_pypi_have_cuda_since_2_11() -> None:
    found = choose(RELEASE, "12.1", "linux", "aarch64")
    assert found is not None
    assert (found.cuda, found.index) == ("13.2", "")
    assert choose("2.11.0", "9.0", "linux", "aarch64") is not None
    assert why("2.10.0", "9.0", "linux", "aarch64") == (
        "no official CUDA wheel of torch 2.10.0 is known for Linux aarch64"
    )


def test_no_targets_select_the_cpu_wheel() -> None:
    found = choose(RELEASE, "")
    assert found is not None
    assert (found.cuda, found.index) == (None, f"{WHL}/cpu")
    mac = choose(RELEASE, "", "macos", "arm64")
    assert mac is not None
    assert mac.index == ""


def test_nightly_comes_from_the_nightly_index() -> None:
    cuda = NEWEST_RELEASE.pypi_cuda
    found = choose(f"{NEXT_TORCH}.dev20261101", "12.0", cuda=cuda)
    assert found is not None
    assert found.index == f"{WHL}/nightly/cu{cuda.replace('.', '')}"
    assert format_index_url(KNOWLEDGE, None, "nightly") == f"{WHL}/nightly/cpu"


@pytest.mark.parametrize(
    ("version", "targets", "cuda", "sentence"),
    [
        (
            "2.6.0",
            "12.0",
            None,
            "no official wheel of torch 2.6.0 holds code for 12.0: its newest arch is 9.0",
        ),
        (
            RELEASE,
            "12.0",
            "12.6",
            (
                f"no official wheel of torch {RELEASE} with CUDA 12.6 holds code for 12.0: "
                "its newest arch is 9.0"
            ),
        ),
        (
            RELEASE,
            "12.0",
            "12.8",
            (
                f"no official wheel of torch {RELEASE} is built with CUDA 12.8: "
                "the wheels have 12.6, 13.0, 13.2, 13.4"
            ),
        ),
        (
            RELEASE,
            "3.7",
            None,
            f"no official wheel of torch {RELEASE} holds code for 3.7: its oldest arch is 5.0",
        ),
        (
            RELEASE,
            "6.1 12.0",
            None,
            f"no official wheel of torch {RELEASE} holds code for 6.1 and 12.0 together",
        ),
    ],
)
def test_refusal_explains_why_no_wheel_fits(
    version: str, targets: str, cuda: str | None, sentence: str
) -> None:
    assert why(version, targets, cuda=cuda) == sentence


def test_missing_arch_is_reported_with_archs_of_wheels() -> None:
    assert why("2.11.0", "8.7").endswith(
        "8.7: its archs are 5.0, 6.0, 7.0, 7.5, 8.0, 8.6, 9.0, 10.0, 12.0"
    )


def test_orin_gets_a_wheel_built_with_cuda_13_2() -> None:
    assert choose(RELEASE, "8.7", machine="aarch64") == SelectedWheel(
        "13.2", "", f"PyPI's torch {RELEASE} (CUDA 13.2) holds sm_80 for 8.7"
    )
    assert choose(RELEASE, "8.7", machine="aarch64", cuda="13.0") is None


def test_macos_has_no_cuda() -> None:
    assert why(RELEASE, "12.0", "macos", "arm64") == "macOS has no CUDA"


@pytest.mark.parametrize(
    ("version", "targets", "python", "there"),
    [
        (RELEASE, "12.0", "3.11.7", True),
        (RELEASE, "12.0", "3.10", False),
        (RELEASE, "", "3.10", False),
        ("2.6.0", "9.0", "3.14", False),
    ],
)
def test_wheel_supports_certain_pythons(
    version: str, targets: str, python: str, there: bool
) -> None:
    found = select_official_wheel(
        KNOWLEDGE, version, archs(targets), "linux", "x86_64", python=python
    )
    assert (found is not None) is there


def test_every_failed_condition_is_reported() -> None:
    result = explain_missing_wheel(
        KNOWLEDGE, "2.6.0", archs("12.0"), "linux", "x86_64", None, "3.14.0"
    )
    assert result == (
        "no official wheel of torch 2.6.0 holds code for 12.0: its newest arch is 9.0; "
        "no official wheel of torch 2.6.0 is for Python 3.14 (supported: 3.9 to 3.13)"
    )
    cpu = explain_missing_wheel(KNOWLEDGE, RELEASE, [], "linux", "x86_64", None, "3.10")
    assert (
        cpu == f"no official wheel of torch {RELEASE} is for Python 3.10 (supported: 3.11 to 3.15)"
    )


def test_every_uninspected_wheel_is_reported_as_such() -> None:
    for found in KNOWLEDGE.releases.values():
        for wheel in found.wheels:
            target = [max(wheel.code.cubins)]
            machine = (wheel.system, wheel.machine, wheel.cuda)
            chosen = select_official_wheel(KNOWLEDGE, found.patch, target, *machine)
            assert chosen is not None
            assert chosen.verified is wheel.status.startswith("verified")
            assert chosen.why.endswith("(inferred, not verified)") is not chosen.verified


@pytest.mark.parametrize(
    ("version", "doubt"),
    [
        ("2.9.0", "known for 2.9.1"),
        ("2.9.9", "assumed to be as 2.9.1"),
        (LATER_PATCH, f"assumed to be as {NEWEST_RELEASE.patch}"),
        (NEXT_TORCH, f"assumed to be as {NEWEST_RELEASE.patch}"),
    ],
)
def test_machine_code_known_from_another_release_is_only_expected(version: str, doubt: str) -> None:
    found = choose(version, "12.0")
    assert found is not None
    assert not found.verified
    assert found.why.endswith(
        f"torch {version} (CUDA {found.cuda}) is expected to hold sm_120 ({doubt})"
    )


def test_nightly_is_never_reported_as_certain() -> None:
    found = choose(f"{NEXT_TORCH}.dev20261101", "12.0")
    assert found is not None
    assert not found.verified


def test_refusal_names_both_platforms_if_another_has_the_code() -> None:
    thor = [Arch(11, 0)]
    result = explain_missing_wheel(KNOWLEDGE, RELEASE, thor, "linux", "x86_64")
    assert result.startswith(
        f"no official wheel of torch {RELEASE} for Linux x86_64 holds code for 11.0"
    )
    assert result.endswith("; the wheel for Linux aarch64 does")
    assert "for Linux" not in explain_missing_wheel(KNOWLEDGE, "2.6.0", thor, "linux", "x86_64")


@pytest.mark.parametrize(
    ("version", "targets", "system", "machine", "python", "index"),
    [
        ("2.5.1", "8.9", "linux", "x86_64", "3.13.1", ""),
        ("2.5.1", "8.9", "linux", "x86_64", "3.8.1", None),
        ("2.5.1", "8.9", "windows", "AMD64", "3.13.1", None),
        ("2.5.1", "8.9", "windows", "AMD64", "3.12.1", f"{WHL}/cu124"),
        ("2.5.1", "", "linux", "aarch64", "3.13.1", None),
        ("2.5.1", "", "macos", "arm64", "3.13.1", None),
        ("2.14.1", "12.0", "linux", "x86_64", "3.14.1", ""),
        ("2.14.1", "12.0", "linux", "x86_64", "3.15.0", f"{WHL}/cu130"),
        ("2.14.1", "", "macos", "arm64", "3.15.0", f"{WHL}/cpu"),
        ("2.13.0", "12.0", "linux", "x86_64", "3.15.0", f"{WHL}/cu130"),
        ("2.13.0", "12.0", "windows", "AMD64", "3.15.0", None),
        (RELEASE, "12.0", "linux", "x86_64", "3.15.0", ""),
        ("2.2.2", "", "macos", "x86_64", "3.12.1", ""),
        ("2.3.1", "", "macos", "x86_64", "3.12.1", None),
    ],
)
def test_wheel_supports_the_pythons_of_its_platform_and_index(  # noqa: PLR0917
    version: str, targets: str, system: str, machine: str, python: str, index: str | None
) -> None:
    requested = (KNOWLEDGE, version, archs(targets), system, machine, None, python)
    found = select_official_wheel(*requested)
    assert (found.index if found else None) == index
    assert bool(found) or "no official wheel of torch" in explain_missing_wheel(*requested)


def test_refused_python_names_the_platform_and_its_range() -> None:
    result = explain_missing_wheel(
        KNOWLEDGE, "2.5.1", archs("8.9"), "windows", "AMD64", None, "3.13.1"
    )
    assert result == (
        "no official wheel of torch 2.5.1 is for Python 3.13 on Windows x86_64 "
        "(supported: 3.9 to 3.12)"
    )
