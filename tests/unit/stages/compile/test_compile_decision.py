"""Reuse, reconfigure or wipe: by the shipped rules, on values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tasks.knowledge.knowledge_files_io import load_knowledge
from tasks.stages.compile.build_folder_decision import (
    ConfigureFingerprint,
    FolderDecision,
    build_cmake_definitions,
    build_reconfigure_arguments,
    choose_folder_action,
    find_folder_rule,
    list_missing_values,
)

RULES = load_knowledge(Path(__file__).parents[4] / "config" / "knowledge").folder_rules
CACHE = {
    "USE_MPI": "ON",
    "USE_NCCL": "OFF",
    "BLAS": "MKL",
    "CMAKE_BUILD_TYPE": "Release",
    "CMAKE_CXX_FLAGS": "-w",
    "TORCH_CUDA_ARCH_LIST": "9.0",
    "CUDNN_LIBRARY": "/old",
}
TOOLS = {"toolchain.cxx": "g++ 13.2 (/usr/bin/g++-13)", "toolchain.cmake": "3"}


def made_from(held: Mapping[str, str] | None = None, /, **variables: str) -> ConfigureFingerprint:
    return ConfigureFingerprint(variables, TOOLS, held or {})


def decision(
    before: ConfigureFingerprint, wanted: ConfigureFingerprint, cache: Mapping[str, str] = CACHE
) -> FolderDecision:
    return choose_folder_action(RULES, cache, before, wanted)


def test_an_unconfigured_folder_is_configured() -> None:
    assert decision(made_from(), made_from(USE_MPI="1"), {}) == FolderDecision("configure")


def test_the_same_in_another_spelling_is_reused() -> None:
    found = decision(made_from(USE_MPI="1"), made_from(USE_MPI="true"))
    assert found == FolderDecision("reuse")
    assert str(found) == "reuse the build folder: no CMake setting changed"


def test_a_changed_switch_reconfigures_and_is_named() -> None:
    found = decision(made_from(USE_MPI="1"), made_from(USE_MPI="0"))
    assert str(found) == "reconfigure the build folder: build.flags.USE_MPI 1 → 0"
    assert build_reconfigure_arguments(RULES, found, made_from(USE_MPI="0")) == ("-DUSE_MPI=0",)


def test_every_value_is_given_again_with_the_one_that_changed() -> None:
    before = made_from(USE_MPI="1", USE_NCCL="0", BLAS="MKL", CXXFLAGS="-w", CC="gcc")
    wanted = made_from(USE_MPI="0", USE_NCCL="0", BLAS="MKL", CXXFLAGS="-w", CC="gcc")
    given = build_reconfigure_arguments(RULES, decision(before, wanted), wanted)
    assert given == ("-DBLAS=MKL", "-DUSE_MPI=0", "-DUSE_NCCL=0")


def test_a_switch_that_is_taken_out_is_forgotten() -> None:
    wanted = made_from(USE_NCCL="0")
    found = decision(made_from(USE_MPI="1", USE_NCCL="0"), wanted)
    assert str(found).endswith("build.flags.USE_MPI 1 → nothing")
    assert build_reconfigure_arguments(RULES, found, wanted) == ("-UUSE_MPI", "-DUSE_NCCL=0")


def test_a_switch_that_the_folder_has_by_default_is_reused() -> None:
    assert decision(made_from(), made_from(USE_NCCL="0")).action == "reuse"
    assert decision(made_from(), made_from(USE_NCCL="1")).action == "reconfigure"


@pytest.mark.parametrize(
    ("name", "forgotten"),
    [
        ("CXXFLAGS", "-UCMAKE_CXX_FLAGS"),
        ("CFLAGS", "-UCMAKE_C_FLAGS"),
        ("CUDAFLAGS", "-UCMAKE_CUDA_FLAGS"),
        ("LDFLAGS", "-UCMAKE_EXE_LINKER_FLAGS"),
    ],
)
def test_flags_of_the_environment_are_dropped_so_that_cmake_reads_them_again(
    name: str, forgotten: str
) -> None:
    for old, new in (("-g", "-O1"), ("-g", ""), ("", "-g")):
        before, wanted = (made_from(**({name: v} if v else {})) for v in (old, new))
        found = decision(before, wanted)
        assert found.action == "reconfigure"
        assert forgotten in build_reconfigure_arguments(RULES, found, wanted)


def test_a_value_that_is_cached_under_another_name_is_given_under_that_name() -> None:
    wanted = made_from(CUDNN_LIB_DIR="/new")
    found = decision(made_from(CUDNN_LIB_DIR="/old"), wanted)
    assert build_reconfigure_arguments(RULES, found, wanted) == (
        "-UCUDNN_*",
        "-DCUDNN_LIBRARY=/new",
    )


def test_another_arch_list_reconfigures_and_one_that_is_unset_does_not_come_back() -> None:
    found = decision(made_from(TORCH_CUDA_ARCH_LIST="9.0"), made_from(TORCH_CUDA_ARCH_LIST="12.0"))
    assert str(found).endswith("target.gpus 9.0 → 12.0")
    gone = decision(made_from(TORCH_CUDA_ARCH_LIST="9.0"), made_from())
    assert build_reconfigure_arguments(RULES, gone, made_from()) == ("-UTORCH_CUDA_ARCH_LIST",)


def test_a_variable_that_only_cmake_files_read_reconfigures() -> None:
    found = decision(made_from(TORCH_NVCC_FLAGS="-lineinfo"), made_from(TORCH_NVCC_FLAGS=""))
    assert found.action == "reconfigure"
    assert build_reconfigure_arguments(RULES, found, made_from()) == ()


@pytest.mark.parametrize("name", ["CCACHE_DIR", "MAX_JOBS", "PYTORCH_BUILD_NUMBER", "CXX"])
def test_what_cmake_need_not_know_is_reused(name: str) -> None:
    assert decision(made_from(**{name: "a"}), made_from(**{name: "b"})).action == "reuse"


@pytest.mark.parametrize("tool", ["toolchain.cxx", "toolchain.cmake"])
def test_another_compiler_or_cmake_wipes(tool: str) -> None:
    wanted = ConfigureFingerprint({"USE_MPI": "0"}, {**TOOLS, tool: "another"})
    found = decision(made_from(USE_MPI="1"), wanted)
    assert found.action == "wipe"
    assert "another" in str(found)
    assert "USE_MPI" not in str(found)  # which alone would not ask for that


def test_a_tool_that_nothing_is_known_of_changes_nothing() -> None:
    assert decision(ConfigureFingerprint({}), made_from()).action == "reuse"
    assert decision(made_from(), ConfigureFingerprint({})).action == "reuse"


def test_another_interpreter_forgets_what_was_found_with_the_old_one() -> None:
    before = ConfigureFingerprint({}, {"toolchain.python": "/a/python"})
    wanted = ConfigureFingerprint({}, {"toolchain.python": "/b/python"})
    found = decision(before, wanted)
    assert found.action == "reconfigure"
    given = build_reconfigure_arguments(RULES, found, wanted)
    assert {"-U_Python_*", "-DPython_EXECUTABLE=/b/python"} <= {*given}


def test_a_cache_that_was_edited_by_hand_is_brought_back() -> None:
    before = made_from({"USE_MPI": "OFF"}, USE_MPI="0")
    found = decision(before, made_from(USE_MPI="0"))
    assert str(found) == "reconfigure the build folder: build.flags.USE_MPI ON → 0"
    assert (
        decision(made_from({"USE_MPI": "ON"}, USE_MPI="1"), made_from(USE_MPI="1")).action
        == "reuse"
    )


def test_what_cmake_did_not_take_is_named() -> None:
    wanted = made_from(USE_NCCL="1", USE_MPI="1", CXXFLAGS="-w", CC="gcc", GENERIC_BLAS="x")
    (lacking,) = list_missing_values(RULES, CACHE, wanted)
    assert (lacking.name, lacking.before, lacking.after) == ("USE_NCCL", "1", "OFF")


def test_flags_beside_those_of_cmake_itself_are_taken() -> None:
    assert not list_missing_values(
        RULES, {"CMAKE_CXX_FLAGS": "/EHsc /W3"}, made_from(CXXFLAGS="/W3")
    )
    assert list_missing_values(RULES, {"CMAKE_CXX_FLAGS": "/EHsc"}, made_from(CXXFLAGS="/W3"))


def test_an_empty_folder_is_given_compilers_and_prefixes_as_well() -> None:
    given = build_cmake_definitions(
        RULES, made_from(CMAKE_CXX_COMPILER="clang++", USE_MPI="1", CC="gcc")
    )
    assert given == {"CMAKE_CXX_COMPILER": "clang++", "USE_MPI": "1"}


def test_the_last_rule_takes_everything_and_no_rule_is_hidden_by_an_earlier_one() -> None:
    assert RULES[-1].keys == ("*",)
    for rule in RULES:
        for key in rule.keys:
            if "*" not in key:
                assert find_folder_rule(RULES, key) is rule, key


def test_what_an_unfinished_configure_tried_is_forgotten() -> None:
    before = ConfigureFingerprint({"USE_NCCL": "0"}, TOOLS, {}, {"USE_NCCL": "0", "USE_MPI": "1"})
    wanted = made_from(USE_NCCL="0")
    found = decision(before, wanted)
    assert found.action == "reconfigure"
    assert "-UUSE_MPI" in build_reconfigure_arguments(RULES, found, wanted)


def test_an_unfinished_configure_of_the_same_is_done_again() -> None:
    same = {"TORCH_NVCC_FLAGS": "-lineinfo"}
    before = ConfigureFingerprint(same, TOOLS, {}, same)
    assert decision(before, made_from(**same)).action == "reconfigure"


@pytest.mark.parametrize(
    ("asked", "held"),
    [("/opt/cudnn/", "/opt/cudnn"), ("/opt/x/../y", "/opt/y"), (r"C:\cudnn", "C:/cudnn")],
)
def test_a_path_that_cmake_writes_in_its_own_way_was_taken(asked: str, held: str) -> None:
    assert not list_missing_values(RULES, {"CUDNN_ROOT": held}, made_from(CUDNN_ROOT=asked))
    assert list(
        list_missing_values(RULES, {"CUDNN_ROOT": "/elsewhere"}, made_from(CUDNN_ROOT=asked))
    )


@pytest.mark.parametrize("name", ["NVCC_APPEND_FLAGS", "CPATH", "_CL_"])
def test_what_compilers_read_themselves_wipes(name: str) -> None:
    assert decision(made_from(**{name: "-DX"}), made_from()).action == "wipe"


def test_another_release_forgets_the_version_that_was_cached() -> None:
    before, wanted = (
        ConfigureFingerprint({}, {"toolchain.release": release}) for release in ("2.6", "2.7")
    )
    found = decision(before, wanted)
    assert "-UTORCH_BUILD_VERSION" in build_reconfigure_arguments(RULES, found, wanted)
