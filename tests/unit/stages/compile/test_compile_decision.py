"""Tests of the decision to reuse, reconfigure or wipe a build folder, with the shipped rules."""

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


def fingerprint(
    cached: Mapping[str, str] | None = None, /, **variables: str
) -> ConfigureFingerprint:
    return ConfigureFingerprint(variables, TOOLS, cached or {})


def decision(
    before: ConfigureFingerprint, requested: ConfigureFingerprint, cache: Mapping[str, str] = CACHE
) -> FolderDecision:
    return choose_folder_action(RULES, cache, before, requested)


def test_unconfigured_folder_is_configured() -> None:
    assert decision(fingerprint(), fingerprint(USE_MPI="1"), {}) == FolderDecision("configure")


def test_equal_value_in_other_spelling_reuses_folder() -> None:
    found = decision(fingerprint(USE_MPI="1"), fingerprint(USE_MPI="true"))
    assert found == FolderDecision("reuse")
    assert str(found) == "reuse the build folder: no CMake setting changed"


def test_changed_flag_reconfigures_and_is_named() -> None:
    found = decision(fingerprint(USE_MPI="1"), fingerprint(USE_MPI="0"))
    assert str(found) == "reconfigure the build folder: build.flags.USE_MPI 1 → 0"
    assert build_reconfigure_arguments(RULES, found, fingerprint(USE_MPI="0")) == ("-DUSE_MPI=0",)


def test_reconfigure_passes_all_values() -> None:
    before = fingerprint(USE_MPI="1", USE_NCCL="0", BLAS="MKL", CXXFLAGS="-w", CC="gcc")
    requested = fingerprint(USE_MPI="0", USE_NCCL="0", BLAS="MKL", CXXFLAGS="-w", CC="gcc")
    given = build_reconfigure_arguments(RULES, decision(before, requested), requested)
    assert given == ("-DBLAS=MKL", "-DUSE_MPI=0", "-DUSE_NCCL=0")


def test_removed_flag_is_unset_in_cache() -> None:
    requested = fingerprint(USE_NCCL="0")
    found = decision(fingerprint(USE_MPI="1", USE_NCCL="0"), requested)
    assert str(found).endswith("build.flags.USE_MPI 1 → nothing")
    assert build_reconfigure_arguments(RULES, found, requested) == ("-UUSE_MPI", "-DUSE_NCCL=0")


def test_flag_equal_to_cached_default_reuses_folder() -> None:
    assert decision(fingerprint(), fingerprint(USE_NCCL="0")).action == "reuse"
    assert decision(fingerprint(), fingerprint(USE_NCCL="1")).action == "reconfigure"


@pytest.mark.parametrize(
    ("name", "forgotten"),
    [
        ("CXXFLAGS", "-UCMAKE_CXX_FLAGS"),
        ("CFLAGS", "-UCMAKE_C_FLAGS"),
        ("CUDAFLAGS", "-UCMAKE_CUDA_FLAGS"),
        ("LDFLAGS", "-UCMAKE_EXE_LINKER_FLAGS"),
    ],
)
def test_changed_compiler_flags_are_unset_in_cache(name: str, forgotten: str) -> None:
    for old, new in (("-g", "-O1"), ("-g", ""), ("", "-g")):
        before, requested = (fingerprint(**({name: v} if v else {})) for v in (old, new))
        found = decision(before, requested)
        assert found.action == "reconfigure"
        assert forgotten in build_reconfigure_arguments(RULES, found, requested)


def test_value_is_passed_under_its_cache_name() -> None:
    requested = fingerprint(CUDNN_LIB_DIR="/new")
    found = decision(fingerprint(CUDNN_LIB_DIR="/old"), requested)
    assert build_reconfigure_arguments(RULES, found, requested) == (
        "-UCUDNN_*",
        "-DCUDNN_LIBRARY=/new",
    )


def test_changed_arch_list_reconfigures_and_removed_one_is_unset() -> None:
    found = decision(
        fingerprint(TORCH_CUDA_ARCH_LIST="9.0"), fingerprint(TORCH_CUDA_ARCH_LIST="12.0")
    )
    assert str(found).endswith("target.gpus 9.0 → 12.0")
    gone = decision(fingerprint(TORCH_CUDA_ARCH_LIST="9.0"), fingerprint())
    assert build_reconfigure_arguments(RULES, gone, fingerprint()) == ("-UTORCH_CUDA_ARCH_LIST",)


def test_variable_read_by_cmake_files_reconfigures() -> None:
    found = decision(fingerprint(TORCH_NVCC_FLAGS="-lineinfo"), fingerprint(TORCH_NVCC_FLAGS=""))
    assert found.action == "reconfigure"
    assert build_reconfigure_arguments(RULES, found, fingerprint()) == ()


@pytest.mark.parametrize("name", ["CCACHE_DIR", "MAX_JOBS", "PYTORCH_BUILD_NUMBER", "CXX"])
def test_variable_irrelevant_to_cmake_reuses_folder(name: str) -> None:
    assert decision(fingerprint(**{name: "a"}), fingerprint(**{name: "b"})).action == "reuse"


@pytest.mark.parametrize("tool", ["toolchain.cxx", "toolchain.cmake"])
def test_changed_compiler_or_cmake_wipes_folder(tool: str) -> None:
    requested = ConfigureFingerprint({"USE_MPI": "0"}, {**TOOLS, tool: "another"})
    found = decision(fingerprint(USE_MPI="1"), requested)
    assert found.action == "wipe"
    assert "another" in str(found)
    assert "USE_MPI" not in str(found)  # which alone would not need a wipe


def test_unknown_tool_version_reuses_folder() -> None:
    assert decision(ConfigureFingerprint({}), fingerprint()).action == "reuse"
    assert decision(fingerprint(), ConfigureFingerprint({})).action == "reuse"


def test_changed_interpreter_unsets_python_cache_entries() -> None:
    before = ConfigureFingerprint({}, {"toolchain.python": "/a/python"})
    requested = ConfigureFingerprint({}, {"toolchain.python": "/b/python"})
    found = decision(before, requested)
    assert found.action == "reconfigure"
    given = build_reconfigure_arguments(RULES, found, requested)
    assert {"-U_Python_*", "-DPython_EXECUTABLE=/b/python"} <= {*given}


def test_manually_edited_cache_is_reconfigured() -> None:
    before = fingerprint({"USE_MPI": "OFF"}, USE_MPI="0")
    found = decision(before, fingerprint(USE_MPI="0"))
    assert str(found) == "reconfigure the build folder: build.flags.USE_MPI ON → 0"
    assert (
        decision(fingerprint({"USE_MPI": "ON"}, USE_MPI="1"), fingerprint(USE_MPI="1")).action
        == "reuse"
    )


def test_value_ignored_by_cmake_is_reported() -> None:
    requested = fingerprint(USE_NCCL="1", USE_MPI="1", CXXFLAGS="-w", CC="gcc", GENERIC_BLAS="x")
    (lacking,) = list_missing_values(RULES, CACHE, requested)
    assert (lacking.name, lacking.before, lacking.after) == ("USE_NCCL", "1", "OFF")


def test_compiler_flags_next_to_cmake_defaults_are_accepted() -> None:
    assert not list_missing_values(
        RULES, {"CMAKE_CXX_FLAGS": "/EHsc /W3"}, fingerprint(CXXFLAGS="/W3")
    )
    assert list_missing_values(RULES, {"CMAKE_CXX_FLAGS": "/EHsc"}, fingerprint(CXXFLAGS="/W3"))


def test_first_configure_passes_compilers() -> None:
    given = build_cmake_definitions(
        RULES, fingerprint(CMAKE_CXX_COMPILER="clang++", USE_MPI="1", CC="gcc")
    )
    assert given == {"CMAKE_CXX_COMPILER": "clang++", "USE_MPI": "1"}


def test_last_rule_matches_everything_and_no_rule_is_shadowed() -> None:
    assert RULES[-1].keys == ("*",)
    for rule in RULES:
        for key in rule.keys:
            if "*" not in key:
                assert find_folder_rule(RULES, key) is rule, key


def test_values_of_unfinished_configure_are_unset() -> None:
    before = ConfigureFingerprint({"USE_NCCL": "0"}, TOOLS, {}, {"USE_NCCL": "0", "USE_MPI": "1"})
    requested = fingerprint(USE_NCCL="0")
    found = decision(before, requested)
    assert found.action == "reconfigure"
    assert "-UUSE_MPI" in build_reconfigure_arguments(RULES, found, requested)


def test_unfinished_configure_with_same_values_is_repeated() -> None:
    same = {"TORCH_NVCC_FLAGS": "-lineinfo"}
    before = ConfigureFingerprint(same, TOOLS, {}, same)
    assert decision(before, fingerprint(**same)).action == "reconfigure"


@pytest.mark.parametrize(
    ("requested", "cached"),
    [("/opt/cudnn/", "/opt/cudnn"), ("/opt/x/../y", "/opt/y"), (r"C:\cudnn", "C:/cudnn")],
)
def test_path_normalized_by_cmake_is_accepted(requested: str, cached: str) -> None:
    assert not list_missing_values(RULES, {"CUDNN_ROOT": cached}, fingerprint(CUDNN_ROOT=requested))
    assert list(
        list_missing_values(RULES, {"CUDNN_ROOT": "/elsewhere"}, fingerprint(CUDNN_ROOT=requested))
    )


@pytest.mark.parametrize("name", ["NVCC_APPEND_FLAGS", "CPATH", "_CL_"])
def test_variable_read_by_compiler_wipes_folder(name: str) -> None:
    assert decision(fingerprint(**{name: "-DX"}), fingerprint()).action == "wipe"


def test_changed_release_unsets_cached_version() -> None:
    before, requested = (
        ConfigureFingerprint({}, {"toolchain.release": release}) for release in ("2.6", "2.7")
    )
    found = decision(before, requested)
    assert "-UTORCH_BUILD_VERSION" in build_reconfigure_arguments(RULES, found, requested)
