"""Doctor's results for fabricated host facts; the real host is not inspected."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tasks.core.check_ids import ALL_CHECK_IDS, CHECK_IDS, GATE_CHECK_IDS, CheckId
from tasks.core.model import Arch
from tasks.core.resolution import Combination, ToolkitResolution
from tasks.core.text_formatting import format_size
from tasks.doctor.check_result import CheckResult, Level
from tasks.doctor.compatibility_checks import build_combination
from tasks.doctor.examine_host import check_host
from tasks.doctor.host_facts import HostFacts, Memory, Tool, VisualStudio
from tasks.knowledge.costs import estimate_cost
from tasks.knowledge.gpus import NvidiaDriver
from tasks.knowledge.read_facts import MAX_FACT_AGE_DAYS
from tasks.knowledge.resource_estimates import ALL_PLACES
from tasks.lock.opened_profile_io import Profile
from tests.support.checkout import KNOWLEDGE
from tests.support.newest import NEXT_CUDA, NEXT_MAJOR_ARCH, NEXT_TORCH
from tests.support.rows import each_row
from tests.support.situations import CPU, SITUATIONS, SOURCE, Situation, disk
from tests.support.surroundings import (
    BUILD_TOOLS,
    CL,
    LINUX,
    RTX_5090,
    WINDOWS,
    WINDOWS_ONLY,
    profile_on,
)
from tests.unit.knowledge.test_knowledge_combinations import CASES, UNJUDGED

_BADNESS: tuple[Level, ...] = ("ok", "not checked", "warning", "problem")


def check_situation(situation: Situation) -> tuple[CheckResult, ...]:
    profile = profile_on(situation.s, **situation.asked)
    return check_host(situation.s, profile, situation.knowledge)


def worst(found: tuple[CheckResult, ...]) -> dict[CheckId, Level]:
    levels: dict[CheckId, Level] = {}
    for symptom in found:
        before = levels.get(symptom.id, "ok")
        levels[symptom.id] = max(before, symptom.level, key=_BADNESS.index)
    return levels


@each_row("name", SITUATIONS)
def test_every_situation_gets_its_expected_levels(name: str) -> None:
    situation = SITUATIONS[name]
    found = {
        check: level for check, level in worst(check_situation(situation)).items() if level != "ok"
    }
    assert found == situation.expected


@each_row("name", SITUATIONS)
def test_every_warning_and_problem_has_hint(name: str) -> None:
    for symptom in check_situation(SITUATIONS[name]):
        assert symptom.seen
        assert symptom.subject
        if symptom.level in {"warning", "problem"}:
            assert symptom.todo.strip(), symptom
        assert not symptom.seen.endswith(".") or symptom.id in {"known-bad", "names"}


def test_situations_cover_many_hosts_including_windows() -> None:
    systems = [situation.s.host.system for situation in SITUATIONS.values()]
    assert len(systems) >= 40
    assert systems.count("windows") >= 15


def test_every_check_has_passing_and_failing_situation() -> None:
    seen: dict[CheckId, set[Level]] = {check: set() for check in CHECK_IDS}
    for situation in SITUATIONS.values():
        for symptom in check_situation(situation):
            seen[symptom.id].add(symptom.level)
    seen["settings"] |= {
        "ok",
        "problem",
    }  # reported by the report, which knows why a profile did not open
    assert [c for c, levels in seen.items() if "ok" not in levels] == []
    assert [c for c, levels in seen.items() if not levels & {"warning", "problem"}] == []


@pytest.mark.parametrize("s", [LINUX, WINDOWS], ids=["linux", "windows"])
def test_missing_facts_are_not_checked_and_never_problems(s: HostFacts) -> None:
    bare = HostFacts(s.host, s.root)
    found = check_host(bare, profile_on(s), KNOWLEDGE)
    assert {symptom.level for symptom in found} <= {"ok", "warning", "not checked"}
    checks = ALL_CHECK_IDS - {"settings"} - (frozenset() if s is WINDOWS else WINDOWS_ONLY)
    assert {symptom.id for symptom in found} == checks


@pytest.mark.parametrize("s", [LINUX, WINDOWS], ids=["linux", "windows"])
def test_host_checks_run_with_broken_profile(s: HostFacts) -> None:
    found = check_host(replace(s, git=Tool(), cxx=Tool()), None, KNOWLEDGE)
    levels = worst(found)
    assert (levels["git"], levels["compiler"]) == ("warning", "problem")
    assert levels["memory"] == levels["disk"] == levels["driver"] == "ok"
    assert set(levels) == ALL_CHECK_IDS - {"settings"} - (
        frozenset() if s is WINDOWS else WINDOWS_ONLY
    )


def test_missing_compiler_hides_no_other_check() -> None:
    bad = replace(
        LINUX,
        cxx=Tool(),
        git=Tool(),
        disks=disk(0.5),
        nvidia=NvidiaDriver("450.1", "11.0", (RTX_5090,)),
    )
    found = worst(check_host(bad, profile_on(LINUX, **SOURCE), KNOWLEDGE))
    assert {check for check, level in found.items() if level == "problem"} == {
        *("compiler", "git", "disk", "driver")
    }
    assert set(found) == set(worst(check_host(LINUX, profile_on(LINUX, **SOURCE), KNOWLEDGE)))


def test_only_requested_checks_run() -> None:
    found = check_host(LINUX, profile_on(LINUX), KNOWLEDGE, GATE_CHECK_IDS)
    assert {symptom.id for symptom in found} == GATE_CHECK_IDS
    assert GATE_CHECK_IDS < ALL_CHECK_IDS


def with_combination(combination: Combination) -> tuple[HostFacts, Profile]:
    """Return host facts and a profile with this combination, even if planning refuses it."""
    on_windows = combination.system == "windows"
    s = WINDOWS if on_windows else LINUX
    built = f"{s.root}/build/mine/venv/bin"
    if combination.msvc or combination.msvc_tools:
        tools = combination.msvc_tools or f"14.{int(combination.msvc or 0) - 1900}.1"
        s = replace(s, cxx=Tool(CL.path, tools))
    if combination.visual_studio:
        installed = VisualStudio("Visual Studio", combination.visual_studio, BUILD_TOOLS, "14.44")
        s = replace(s, visual_studio=(installed,))
    if combination.gcc:
        s = replace(s, cxx=Tool("/usr/bin/g++", combination.gcc))
    if combination.clang:
        s = replace(s, cxx=Tool("/usr/bin/clang++", combination.clang))
    s = replace(
        s,
        glibc=combination.glibc or "",
        nvcc=Tool("/cuda/bin/nvcc", combination.cuda) if combination.cuda else None,
        cmake=Tool(f"{built}/cmake", combination.cmake or ""),
        setuptools=Tool(f"{built}/setuptools", combination.setuptools or ""),
        ninja=Tool(f"{built}/ninja", combination.ninja or ""),
    )
    built_too = {"extensions": [{"name": "e", "path": ".", "imports": []}]}
    profile = profile_on(s, **(built_too if combination.extensions else {}))
    choice = replace(
        profile.choice,
        torch=combination.torch or profile.choice.torch,
        targets=combination.archs or (Arch(12, 0),),
        strategy=combination.strategy or profile.choice.strategy,
        toolkit=ToolkitResolution("system", combination.cuda or "", "/cuda"),
    )
    return s, replace(profile, choice=choice)


@each_row("bad", KNOWLEDGE.known_bad, ids=lambda bad: str(bad.id))
def test_every_known_bad_entry_is_reported_or_cannot_be_checked(bad: Any) -> None:
    if bad.id in UNJUDGED:
        assert not bad.when
        return
    s, profile = with_combination(CASES[bad.id][0])
    (found,) = [symptom for symptom in check_host(s, profile, KNOWLEDGE) if symptom.known == bad.id]
    expected = {"error": "problem", "warning": "warning", "info": "ok"}
    level = "ok" if bad.cured else expected[bad.level]
    assert (found.id, found.level) == ("known-bad", level)
    assert found.seen == (
        f"the stage {bad.cured} avoids this: {bad.what}" if bad.cured else bad.what
    )


def test_combination_ignores_tools_that_environment_provides() -> None:
    profile = profile_on(LINUX)
    path = replace(LINUX, cmake=Tool("/usr/bin/cmake", "4.1"), setuptools=Tool("/usr/x", "82.0"))
    assert build_combination(path, profile).cmake is None
    assert build_combination(path, profile).setuptools is None
    clang = replace(LINUX, cxx=Tool("/usr/bin/clang++-18", "18.1"))
    assert build_combination(clang, profile).gcc is None
    assert build_combination(clang, profile).clang == "18.1"


def test_sibling_build_folder_is_not_the_build_environment() -> None:
    beside = replace(LINUX, ninja=Tool("/home/me/torchyard/build/mine2/bin/ninja", "1.11.1"))
    assert worst(check_host(beside, profile_on(LINUX), KNOWLEDGE))["ninja"] == "ok"


@pytest.mark.parametrize(("cuda", "what"), [(False, "a compiler"), (True, "a kernel of flash")])
def test_memory_check_uses_known_memory_requirement(cuda: bool, what: str) -> None:
    asked = SOURCE if cuda else SOURCE | CPU
    most = estimate_cost(KNOWLEDGE, "source", int(cuda), 0).memory_mib

    def describe_memory(mib: int) -> str:
        s = replace(LINUX, memory=Memory(64 * 1024, mib, 8 * 1024, 0, 1))
        found = check_host(s, profile_on(s, **asked), KNOWLEDGE, frozenset({"memory"}))
        return found[0].seen

    assert f"{what}" in describe_memory(most - 1)
    assert f"takes up to {format_size(most)}" in describe_memory(most - 1)
    assert "takes up to" not in describe_memory(most)


def test_unopened_profile_needs_disk_space_of_prebuilt_torch() -> None:
    room = estimate_cost(KNOWLEDGE, "prebuilt", 1, 0).disk_usage
    assert room
    least, _ = room.sum_places(ALL_PLACES)
    found = check_host(replace(LINUX, disks=disk((least - 1) / 1024)), None, KNOWLEDGE)
    assert worst(found)["disk"] == "problem"


@pytest.mark.parametrize("s", [LINUX, WINDOWS], ids=["linux", "windows"])
def test_compiler_is_not_required_when_nothing_is_compiled(s: HostFacts) -> None:
    bare = replace(s, cxx=Tool(), visual_studio=(), windows_sdk=(), glibc="2.42")
    for profile, level in ((profile_on(s, extensions=[]), "ok"), (profile_on(s), "problem")):
        found = check_host(bare, profile, KNOWLEDGE)
        results = [one for one in found if one.id in {"compiler", "visual-studio", "windows-sdk"}]
        assert {one.level for one in results} == {level}
        assert all(("not needed" in one.seen) is (level == "ok") for one in results)


def test_compiler_limits_do_not_apply_when_nothing_is_compiled() -> None:
    s = replace(LINUX, glibc="2.42", nvcc=None)
    combination = build_combination(s, profile_on(s, extensions=[]))
    assert (combination.gcc, combination.glibc, combination.extensions) == (None, None, False)
    assert build_combination(s, profile_on(s)).glibc == "2.42"


@pytest.mark.parametrize(
    ("capability", "todo"),
    [
        ("8.9", 'to build for this machine, set target.gpus: ["8.9", "12.0"]'),
        (
            str(NEXT_MAJOR_ARCH),
            f'to build for this machine, set target.gpus: ["12.0", "{NEXT_MAJOR_ARCH}"]',
        ),
        ("3.0", 'no known torch and CUDA support all of "3.0", "12.0"'),
    ],
)
def test_gpu_is_suggested_for_target_gpus_only_if_supported(capability: str, todo: str) -> None:
    other = replace(RTX_5090, name="another", capability=capability)
    s = replace(LINUX, nvidia=NvidiaDriver("595.1", "13.2", (RTX_5090, other)))
    profile = profile_on(s, target={"gpus": ["12.0"]})
    (hint,) = (one.todo for one in check_host(s, profile, KNOWLEDGE, {"targets"}))
    assert hint.startswith(todo)


def test_old_facts_are_reported_with_the_newer_releases() -> None:
    situation = SITUATIONS["old facts and newer releases"]
    (found,) = check_host(situation.s, None, situation.knowledge, {"knowledge"})
    recorded = f"recorded on {KNOWLEDGE.date}, {MAX_FACT_AGE_DAYS + 1} days ago"
    assert found.seen == (
        f"the facts about PyTorch and CUDA were {recorded}; "
        f"https://pypi.org/simple has torch {NEXT_TORCH}, CUDA {NEXT_CUDA}"
    )
    assert "git pull" in found.todo
