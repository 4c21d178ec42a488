"""Versions that are too old for a PyTorch release or a toolkit."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

from tasks.core.model import System
from tasks.core.resolution import Combination
from tasks.knowledge.host_compilers import (
    HostCompiler,
    explain_compiler_rejection,
    find_compiler_limits,
    parse_msc_ver,
)
from tasks.knowledge.knowledge_files_io import load_knowledge
from tasks.knowledge.minimum_versions import find_too_old_versions
from tests.support.newest import LATER_CUDA, NEWEST_RELEASE, NEXT_TORCH
from tests.support.rows import each_row

KNOWLEDGE = load_knowledge(Path(__file__).parents[3] / "config" / "knowledge")
SOURCE = Combination(strategy="source")
LINUX = Combination(system="linux", strategy="prebuilt", extensions=True)
WINDOWS = Combination(system="windows", strategy="prebuilt", extensions=True)

# A version that is too old, and its neighbour that is not
CASES = {
    "gcc-min": (
        replace(SOURCE, torch="2.6.0", gcc="9.2.1"),
        replace(SOURCE, torch="2.6.0", gcc="9.3.0"),
    ),
    "gcc-min-c++20": (
        replace(SOURCE, torch="2.13.0", gcc="11.2.0"),
        replace(SOURCE, torch="2.13.0", gcc="11.3.0"),
    ),
    "gcc-c++20": (
        replace(LINUX, torch="2.12.1", gcc="9.4.0"),
        replace(LINUX, torch="2.11.0", gcc="9.4.0"),
    ),
    "clang-c++20": (
        replace(LINUX, torch="2.12.1", clang="9.0.1"),
        replace(LINUX, torch="2.12.1", clang="10.0.0"),
    ),
    "msvc-min": (
        replace(WINDOWS, torch="2.14.1", msvc="1916"),
        replace(WINDOWS, torch="2.13.0", msvc="1916"),
    ),
    "msvc-toolkit-min": (
        Combination(system="windows", cuda="13.0", msvc="1916"),
        Combination(system="windows", cuda="12.9", msvc="1916"),
    ),
    "cmake-min": (
        replace(SOURCE, torch="2.9.1", cmake="3.26.4"),
        replace(SOURCE, torch="2.8.0", cmake="3.26.4"),
    ),
    "setuptools-min": (
        Combination(torch="2.13.0", setuptools="70.0.0"),
        Combination(torch="2.10.0", setuptools="70.0.0"),
    ),
    "python-min": (
        Combination(strategy="prebuilt", torch="2.15.0", python="3.10.12"),
        Combination(strategy="existing", torch="2.15.0", python="3.10.12"),
    ),
    "cuda-min-find-package": (
        replace(LINUX, torch="2.14.1", cuda="12.4.131"),
        replace(LINUX, torch="2.13.0", cuda="12.4.131"),
    ),
    "driver-min": (
        Combination(cuda="13.0", driver="570.86.15"),
        Combination(cuda="12.8", driver="570.86.15"),
    ),
}


def ids(combination: Combination) -> list[str]:
    return [finding.id for finding in find_too_old_versions(KNOWLEDGE, combination)]


@each_row("name", CASES)
def test_minimum_versions_of_torch_are_checked(name: str) -> None:
    old, enough = CASES[name]
    assert name in ids(old)
    assert name not in ids(enough)


def test_every_minimum_has_a_test_case() -> None:
    assert set(CASES) == {row.id for row in KNOWLEDGE.minimums}


def test_unknown_facts_are_never_too_old() -> None:
    assert ids(Combination()) == []
    for name, (old, _) in CASES.items():
        for known in fields(old):
            if getattr(old, known.name) is not None:
                less = replace(old, **{known.name: None})
                optional = known.name == "system" and name not in {"msvc-min", "msvc-toolkit-min"}
                optional |= known.name == "strategy" and name in {
                    *("gcc-c++20", "clang-c++20", "msvc-min", "msvc-toolkit-min")
                }
                assert optional or name not in ids(less), (name, known.name)


def test_impossible_release_or_toolkit_checks_nothing() -> None:
    assert ids(replace(SOURCE, torch="1.13.0", gcc="5.4", cmake="3.1", python="3.6")) == []
    assert ids(Combination(system="windows", cuda="12.7", msvc="1800")) == []
    assert ids(Combination(cuda="10.2", driver="1.0")) == []


def test_unknown_release_or_toolkit_has_minimums_of_the_nearest() -> None:
    old = replace(SOURCE, torch=NEWEST_RELEASE.patch, gcc="5.4", cmake="3.1", python="3.6")
    assert ids(replace(old, torch=NEXT_TORCH)) == ids(old) != []
    found = ids(Combination(system="windows", cuda=LATER_CUDA, msvc="1800", driver="1.0"))
    assert found == ["msvc-toolkit-min"], "the driver of a new CUDA major version is not known"


def test_version_less_precise_than_minimum_is_not_checked() -> None:
    assert ids(replace(SOURCE, torch="2.6.0", gcc="9")) == []


def test_outdated_version_is_reported_with_minimum_and_hint() -> None:
    (finding,) = find_too_old_versions(KNOWLEDGE, CASES["gcc-min"][0])
    assert finding.what == "GCC 9.2.1 with the sources of PyTorch 2.6.0, which need 9.3"
    assert finding.level == "error"
    assert "g++ 9.3 or later" in finding.fix
    assert finding.status.startswith("verified")


def test_outdated_tool_that_deps_installs_is_information() -> None:
    for name in ("cmake-min", "setuptools-min"):
        (finding,) = find_too_old_versions(KNOWLEDGE, CASES[name][0])
        assert (finding.level, finding.cured) == ("info", "deps")


def test_unverified_minimum_is_no_error() -> None:
    for row in KNOWLEDGE.minimums:
        assert row.level != "error" or row.status.startswith("verified"), row.id


def test_gcc_refused_by_deps_is_an_error_here() -> None:
    for minor, release in KNOWLEDGE.releases.items():
        old = replace(SOURCE, torch=minor, gcc="5.1.0")
        error = [
            f
            for f in find_too_old_versions(KNOWLEDGE, old)
            if f.level == "error" and "GCC" in f.what
        ]
        least = find_compiler_limits(KNOWLEDGE, None, minor).gcc_min
        assert least == (release.gcc_min if error else ""), minor


@each_row(
    ("cuda", "torch", "compiler", "why"),
    [
        ("12.8", None, HostCompiler("g++", "gcc", "14.2.0"), ""),
        (
            "12.8",
            None,
            HostCompiler("g++", "gcc", "15.1"),
            "newer than CUDA 12.8 supports (GCC up to",
        ),
        ("12.8", None, HostCompiler("clang++", "clang", "19.1.7"), ""),
        ("12.8", None, HostCompiler("clang++", "clang", "20.1"), "supports (clang up to 19)"),
        ("12.8", "2.6.0", HostCompiler("g++", "gcc", "9.2"), "older than the sources of PyTorch"),
        ("12.8", "2.6.0", HostCompiler("clang++", "clang", "8.0"), ""),
        ("12.8", None, HostCompiler("VS", "msvc", "14.44.35207"), ""),
        ("12.8", None, HostCompiler("VS", "msvc", "14.50.35717"), "_MSC_VER 1950) is newer than"),
        ("13.0", None, HostCompiler("VS", "msvc", "14.16.27023"), "_MSC_VER 1916) is older than"),
        (None, None, HostCompiler("g++", "gcc", "99.1"), ""),
        ("12.8", "1.0.0", HostCompiler("g++", "gcc", ""), ""),
        ("12.8", None, HostCompiler("VS", "msvc", ""), ""),
    ],
)
def test_compiler_is_accepted_or_refused_with_reason(
    cuda: str | None, torch: str | None, compiler: HostCompiler, why: str
) -> None:
    result = explain_compiler_rejection(find_compiler_limits(KNOWLEDGE, cuda, torch), compiler)
    assert why in result
    assert bool(result) is bool(why)


def test_msvc_toolset_version_is_not_its_msc_ver() -> None:
    assert [parse_msc_ver(text) for text in ("14.44.35207", "14.50", "14.16.27023")] == [
        1944,
        1950,
        1916,
    ]
    assert [parse_msc_ver(text) for text in ("", "1944", "14.4", "17.14.36")] == [None] * 4


def test_current_combination_is_not_too_old() -> None:
    systems: tuple[System, ...] = ("linux", "windows")
    for system in systems:
        current = Combination(
            system=system,
            strategy="source",
            extensions=True,
            torch="2.15.0",
            cuda="13.4.92",
            gcc="14.2.0",
            msvc="1950",
            cmake="4.1.0",
            setuptools="80.0.0",
            python="3.12.4",
            driver="580.65.06",
        )
        assert find_too_old_versions(KNOWLEDGE, current) == ()
