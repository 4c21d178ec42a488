from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest
import yaml
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tasks.core.model import Arch
from tasks.core.resolution import Combination
from tasks.knowledge.arch_lists import is_cmake_arch_supported, is_extension_arch_supported
from tasks.knowledge.knowledge_files_io import load_knowledge
from tasks.knowledge.known_problems import find_known_bad
from tests.support.rows import each_row

FOLDER = Path(__file__).parents[3] / "config" / "knowledge"
KNOWLEDGE = load_knowledge(FOLDER)
UNJUDGED: set[str] = set()
CURED = {
    "cuda132-zc-preprocessor": "env",
    "msvc-c2872-std": "env",
    "gcc14-old-cuda": "deps",
    "clang-old-cuda": "deps",
    "cmake4": "deps",
    "setuptools82": "deps",
    "ninja-windows": "deps",
}


def visual_studio(version: str, toolset: str) -> Combination:
    return Combination(
        system="windows", strategy="source", visual_studio=version, msvc_tools=toolset
    )


CASES = {
    "msvc-lnk1161": (
        visual_studio("17.4.2", "14.34.31937"),
        visual_studio("17.4.3", "14.34.31937"),
    ),
    "vs2026-18.6-xpu": (
        Combination(system="windows", strategy="source", visual_studio="18.6.0"),
        Combination(system="windows", strategy="source", visual_studio="18.4.0"),
    ),
    "clang-old-cuda": (
        Combination(system="linux", clang="18.1.3", cuda="12.4"),
        Combination(system="linux", clang="18.1.3", cuda="12.6"),
    ),
    "torch25-two-digit-archs": (
        Combination(strategy="source", torch="2.5.1", archs=(Arch(12, 0),)),
        Combination(strategy="source", torch="2.6.0", archs=(Arch(12, 0),)),
    ),
    "libomp140-windows": (
        Combination(system="windows", strategy="prebuilt", torch="2.4.0"),
        Combination(system="windows", strategy="prebuilt", torch="2.4.1"),
    ),
    "libuv-windows": (
        Combination(system="windows", strategy="source"),
        Combination(system="linux", strategy="source"),
    ),
    "ninja-windows": (
        Combination(system="windows", ninja="1.13.0"),
        Combination(system="windows", ninja="1.13.1"),
    ),
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
    "sources-cuda-13": (
        Combination(strategy="source", torch="2.8.0", cuda="13.0"),
        Combination(strategy="source", torch="2.9.1", cuda="13.0"),
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
        Combination(system="linux", extensions=True, torch="2.11.0", gcc="14", cuda="12.8"),
        Combination(system="linux", extensions=True, torch="2.12.1", gcc="14", cuda="12.8"),
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
        Combination(torch="2.6.0", archs=(Arch(12, 0),), extensions=True),
        Combination(torch="2.6.0", archs=(Arch(12, 0),), extensions=False),
    ),
}


def ids(combination: Combination) -> list[str]:
    return [finding.id for finding in find_known_bad(KNOWLEDGE, combination)]


@each_row("name", CASES)
def test_known_bad_combination_is_found_but_its_neighbour_is_not(name: str) -> None:
    bad, good = CASES[name]
    assert name in ids(bad)
    assert name not in ids(good)


def test_every_known_bad_entry_is_checked_fixed_or_explained() -> None:
    assert set(CASES) | UNJUDGED == {bad.id for bad in KNOWLEDGE.known_bad}
    rows = yaml.safe_load((FOLDER / "combinations.yaml").read_text(encoding="utf-8"))["known_bad"]
    assert {bad.id: bad.cured for bad in KNOWLEDGE.known_bad if bad.cured} == CURED
    for row in rows:
        assert row["when"] or row["judging"], row["id"]
    assert {row["id"] for row in rows if not row["when"]} == UNJUDGED


@pytest.mark.parametrize("name", CURED)
def test_automatically_fixed_combination_is_no_warning(name: str) -> None:
    found = {finding.id: finding for finding in find_known_bad(KNOWLEDGE, CASES[name][0])}
    assert (found[name].level, found[name].cured) == ("info", CURED[name])


def test_lnk1161_is_detected_from_the_installation() -> None:
    # _MSC_VER is 1934 and the toolset 14.34 in all of them
    assert "msvc-lnk1161" not in ids(Combination(system="windows", strategy="source", msvc="1934"))
    for version, bad in {"17.3.6": False, "17.4.0": True, "17.4.2": True, "17.4.3": False}.items():
        assert ("msvc-lnk1161" in ids(visual_studio(version, "14.34.31933"))) is bad
    assert "msvc-lnk1161" not in ids(visual_studio("17.4.2", "14.29.30133"))


def test_torch_2_6_cmake_accepts_blackwell_but_cpp_extension_does_not() -> None:
    source = Combination(strategy="source", torch="2.6.0", archs=(Arch(12, 0),), cuda="12.8")
    assert not {"torch26-blackwell", "torch25-two-digit-archs"} & set(ids(source))
    assert "torch26-blackwell" in ids(replace(source, extensions=True))


@each_row("release", KNOWLEDGE.releases)
def test_first_release_published_with_cuda_13_is_first_to_build_with_it(
    release: str,
) -> None:
    requested = Combination(strategy="source", torch=release, cuda="13.0")
    published = any(cuda.startswith("13.") for cuda in KNOWLEDGE.releases[release].cudas_built)
    assert ("sources-cuda-13" in ids(requested)) is not published
    assert "sources-cuda-13" not in ids(replace(requested, cuda="12.9"))
    assert "sources-cuda-13" not in ids(replace(requested, strategy="prebuilt"))


def test_known_bad_archs_match_the_tables() -> None:
    for release in KNOWLEDGE.releases:
        requested = Combination(
            strategy="source", torch=release, archs=(Arch(12, 0),), extensions=True
        )
        found = ids(requested)
        taken = is_extension_arch_supported(KNOWLEDGE, release, Arch(12, 0))
        assert ("torch26-blackwell" in found) is not taken
        taken = is_cmake_arch_supported(KNOWLEDGE, release, Arch(12, 0))
        assert ("torch25-two-digit-archs" in found) is not taken


def test_unknown_facts_match_no_known_bad_entry() -> None:
    assert ids(Combination()) == []
    for name, (bad, _) in CASES.items():
        for known in fields(bad):
            if getattr(bad, known.name) is not None:
                assert name not in ids(replace(bad, **{known.name: None})), known.name


def test_version_less_precise_than_bound_matches_nothing() -> None:
    assert ids(Combination(cuda="13.2")) == []
    assert ids(Combination(cuda="13.1")) == ["cuda-12.8-to-13.2.1-miscompile"]


def test_every_gcc_limit_matches_the_toolkits() -> None:
    for cuda, kit in KNOWLEDGE.toolkits.items():
        for gcc in range(10, 17):
            found = "gcc14-old-cuda" in ids(Combination(system="linux", gcc=f"{gcc}.1", cuda=cuda))
            assert found is (gcc > kit.gcc_max), (cuda, gcc)


def test_every_clang_limit_matches_the_toolkits() -> None:
    for cuda, kit in KNOWLEDGE.toolkits.items():
        for clang in range(10, 24):
            settings = Combination(system="linux", clang=f"{clang}.1", cuda=cuda)
            assert ("clang-old-cuda" in ids(settings)) is (clang > kit.clang_max), (cuda, clang)


def test_oldest_cuda_of_sources_matches_the_releases() -> None:
    for minor, release in KNOWLEDGE.releases.items():
        for cuda in KNOWLEDGE.toolkits:
            requested = Combination(strategy="source", torch=minor, cuda=cuda)
            older = Version(cuda) < Version(release.min_cuda_cmake)
            assert ("min-cuda-vs-torch" in ids(requested)) is older, (minor, cuda)


def test_every_msvc_limit_matches_the_toolkits() -> None:
    entries = {"msvc-1940-old-cuda", "vs2026-old-cuda"}
    for cuda, kit in KNOWLEDGE.toolkits.items():
        for msvc in (1929, 1939, 1940, 1949, 1950):
            combination = Combination(system="windows", msvc=str(msvc), cuda=cuda)
            assert bool(entries & set(ids(combination))) is (msvc >= kit.msvc_below), (cuda, msvc)


def test_finding_has_a_hint_and_its_evidence() -> None:
    (finding,) = find_known_bad(KNOWLEDGE, Combination(system="linux", glibc="2.41", cuda="12.6"))
    assert finding.level == "warning"
    assert "exception specification" in finding.what
    assert "CUDA 13.0 or later" in finding.fix
    assert finding.status.startswith("verified")


def test_miscompile_is_information_and_not_a_warning() -> None:
    assert [f.level for f in find_known_bad(KNOWLEDGE, Combination(cuda="12.8"))] == ["info"]


def test_current_combination_has_no_findings() -> None:
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
    assert find_known_bad(KNOWLEDGE, clean) == ()


def test_every_condition_is_a_list_or_a_specifier() -> None:
    for bad in KNOWLEDGE.known_bad:
        for condition in bad.when:
            for key, expected in condition.items():
                assert isinstance(expected, list) is (key in {"system", "strategy"})
                assert isinstance(expected, bool) is (key == "extensions")
                is_limit = expected == f">={{{key}_above}}"
                assert is_limit or isinstance(expected, list | bool) or SpecifierSet(expected)
