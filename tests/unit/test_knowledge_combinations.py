from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from tasks.knowledge import load
from tasks.knowledge.combinations import Combination, judge
from tasks.model import Arch

KNOWLEDGE = load(Path(__file__).parents[2] / "config" / "knowledge")
UNJUDGED = {"msvc-lnk1161", "vs2026-18.6-xpu"}


CASES = {
    "msvc-1940-old-cuda": (
        Combination(system="windows", msvc="1944", cuda="12.3"),
        Combination(system="windows", msvc="1939", cuda="12.3"),
    ),
    "vs2026-old-cuda": (
        Combination(system="windows", msvc="1950", cuda="13.1"),
        Combination(system="windows", msvc="1950", cuda="13.2"),
    ),
    "cuda132-zc-preprocessor": (
        Combination(system="windows", cuda="13.2"),
        Combination(system="linux", cuda="13.2"),
    ),
    "msvc-c2872-std": (
        Combination(system="windows", torch="2.9.1"),
        Combination(system="windows", torch="2.8.0"),
    ),
    "nvtoolsext-windows": (
        Combination(system="windows", torch="2.4.1", cuda="12.4"),
        Combination(system="windows", torch="2.5.1", cuda="12.4"),
    ),
    "nvtoolsext-129": (
        Combination(torch="2.7.1", cuda="12.9"),
        Combination(torch="2.8.0", cuda="12.9"),
    ),
    "sources-2.6-cuda-13": (
        Combination(strategy="source", torch="2.6.0", cuda="13.0"),
        Combination(strategy="prebuilt", torch="2.6.0", cuda="13.0"),
    ),
    "glibc-2.41": (
        Combination(system="linux", glibc="2.41", cuda="12.9.86"),
        Combination(system="linux", glibc="2.41", cuda="13.0"),
    ),
    "glibc-2.42-rsqrt": (
        Combination(system="linux", glibc="2.42", cuda="13.1"),
        Combination(system="linux", glibc="2.42", cuda="13.2"),
    ),
    "gcc14-old-cuda": (
        Combination(system="linux", gcc="14.2.0", cuda="12.6"),
        Combination(system="linux", gcc="14.2.0", cuda="12.8"),
    ),
    "torch211-gcc14": (
        Combination(system="linux", torch="2.11.0", gcc="14", cuda="12.8"),
        Combination(system="linux", torch="2.12.1", gcc="14", cuda="12.8"),
    ),
    "cmake4": (
        Combination(strategy="source", torch="2.6.0", cmake="4.0.1"),
        Combination(strategy="prebuilt", torch="2.6.0", cmake="4.0.1"),
    ),
    "setuptools82": (
        Combination(torch="2.12.1", setuptools="82.0.0"),
        Combination(torch="2.12.1", setuptools="81.0.0"),
    ),
    "cuda13-old-archs": (
        Combination(cuda="13.0", archs=(Arch(7, 0), Arch(12, 0))),
        Combination(cuda="13.0", archs=(Arch(7, 5), Arch(12, 0))),
    ),
    "cuda-12.8-to-13.2.1-miscompile": (
        Combination(cuda="13.2.78"),
        Combination(cuda="13.2.86"),
    ),
    "wgmma-race": (
        Combination(cuda="13.2.86", archs=(Arch(9, 0, "a"),)),
        Combination(cuda="13.2.86", archs=(Arch(12, 0),)),
    ),
    "min-cuda-vs-torch": (
        Combination(strategy="source", torch="2.14.1", cuda="12.4"),
        Combination(strategy="source", torch="2.13.0", cuda="12.4"),
    ),
    "torch26-blackwell": (
        Combination(torch="2.6.0", archs=(Arch(12, 0),)),
        Combination(torch="2.7.0", archs=(Arch(12, 0),)),
    ),
}


def ids(combination: Combination) -> list[str]:
    return [finding.id for finding in judge(KNOWLEDGE, combination)]


@pytest.mark.parametrize("name", CASES)
def test_a_known_bad_combination_is_found_and_its_neighbour_is_not(name: str) -> None:
    bad, good = CASES[name]
    assert name in ids(bad)
    assert name not in ids(good)


def test_every_entry_is_tried_above_or_cannot_be_judged() -> None:
    assert {bad.id for bad in KNOWLEDGE.known_bad if not bad.when} == UNJUDGED
    assert set(CASES) | UNJUDGED == {bad.id for bad in KNOWLEDGE.known_bad}


def test_nothing_is_judged_by_facts_that_are_not_known() -> None:
    assert ids(Combination()) == []
    for name, (bad, _) in CASES.items():
        for known in fields(bad):
            if getattr(bad, known.name) is not None:
                assert name not in ids(replace(bad, **{known.name: None})), known.name


def test_a_version_less_exact_than_the_bound_judges_nothing() -> None:
    assert ids(Combination(cuda="13.2")) == []
    assert ids(Combination(cuda="13.1")) == ["cuda-12.8-to-13.2.1-miscompile"]


def test_every_gcc_limit_agrees_with_the_toolkits() -> None:
    for cuda, kit in KNOWLEDGE.toolkits.items():
        for gcc in range(10, 17):
            found = "gcc14-old-cuda" in ids(Combination(system="linux", gcc=f"{gcc}.1", cuda=cuda))
            assert found is (gcc > kit.gcc_max), (cuda, gcc)


def test_every_msvc_limit_agrees_with_the_toolkits() -> None:
    entries = {"msvc-1940-old-cuda", "vs2026-old-cuda"}
    for cuda, kit in KNOWLEDGE.toolkits.items():
        for msvc in (1929, 1939, 1940, 1949, 1950):
            combination = Combination(system="windows", msvc=str(msvc), cuda=cuda)
            assert bool(entries & set(ids(combination))) is (msvc >= kit.msvc[1]), (cuda, msvc)


def test_a_finding_says_what_to_do_and_how_it_is_known() -> None:
    (finding,) = judge(KNOWLEDGE, Combination(system="linux", glibc="2.41", cuda="12.6"))
    assert finding.level == "warning"
    assert "exception specification" in finding.what
    assert "CUDA>=13.0" in finding.fix
    assert finding.status.startswith("verified")


def test_a_miscompile_is_information_and_not_a_warning() -> None:
    assert [f.level for f in judge(KNOWLEDGE, Combination(cuda="12.8"))] == ["info"]


def test_a_current_combination_is_clean() -> None:
    clean = Combination(
        system="linux",
        cuda="13.3.73",
        torch="2.15.0",
        gcc="14.2.0",
        glibc="2.41",
        cmake="4.1.0",
        setuptools="82.0.0",
        archs=(Arch(12, 0),),
        strategy="source",
    )
    assert judge(KNOWLEDGE, clean) == ()


def test_every_condition_is_a_list_or_a_specifier() -> None:
    for bad in KNOWLEDGE.known_bad:
        for condition in bad.when:
            for key, wanted in condition.items():
                assert isinstance(wanted, list) is (key in {"system", "strategy"})
                assert isinstance(wanted, list) or SpecifierSet(wanted)
