from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from typing import Any

import pytest

from tasks.core.deps_model import CudaHome, DepsManifest, MsvcEnvironment, Program
from tasks.core.errors import SettingsError, TorchyardError
from tasks.core.model import Arch, Layout
from tasks.core.project import Project
from tasks.core.resolution import Resolution
from tasks.knowledge.arch_lists import (
    format_cmake_archs,
    format_torch_archs,
)
from tasks.settings.schema import Build, Settings
from tasks.stages.env.environment_variables import resolve_environments
from tasks.stages.env.model import ArchLists, Environment, EnvJob
from tasks.stages.env.plan import plan
from tests.support.actionyard import PREBUILT
from tests.support.checkout import KNOWLEDGE

NONE = Program("", "")
PINS = ("nvidia-cuda-nvcc==13.2.86",)
MSVC = MsvcEnvironment(
    "vcvarsall x64",
    {"INCLUDE": r"C:\VS\include;C:\SDK\include", "VCToolsVersion": "14.44.35207"},
    (r"C:\VS\VC\bin", r"C:\SDK\bin"),
)


def deps(home: str | None = "/y/build/p/cuda", **changes: Any) -> DepsManifest:
    toolkit = CudaHome(home, "13.2.86", PINS) if home else None
    given = DepsManifest(
        python="/y/build/p/venv/bin/python",
        python_version="3.11.7",
        identity="1",
        overlay=None,
        scripts="/y/build/p/venv/bin",
        toolkit=toolkit,
        cuobjdump=None,
        cc=Program("/usr/bin/gcc", "13.2.0"),
        cxx=Program("/usr/bin/g++", "13.2.0"),
        cmake=NONE,
        ninja=NONE,
        git=None,
    )
    return replace(given, **changes)


def job(**changes: Any) -> EnvJob:
    given = EnvJob(
        profile="p",
        system="linux",
        strategy="source",
        cuda="13.2",
        torch="2.15.0",
        targets=(Arch(12, 0), Arch(8, 9)),
        ptx=False,
        arch_lists=ArchLists(),
        build_type="Release",
        blas="auto",
        flags={"USE_NCCL": False, "BUILD_TEST": True, "USE_BLAS_X": "some"},
        variables={"TORCH_NVCC_FLAGS": "-Xfatbin -compress-all"},
        runtime={},
        caching="auto",
        cache_size="auto",
        venv=PurePosixPath("/y/build/p/venv"),
        deps=PurePath("deps.json"),
        cache=PurePath("cache.json"),
        source=None,
        scripts=(),
        wrappers=(),
        templates=PurePath("templates"),
        log=PurePath("env.log"),
    )
    made = replace(given, **changes)
    return replace(made, arch_lists=lists(made)) if made.targets else made


def lists(made: EnvJob) -> ArchLists:
    return ArchLists(
        format_torch_archs(KNOWLEDGE, made.torch, made.targets, made.ptx, cmake=True),
        format_torch_archs(KNOWLEDGE, made.torch, made.targets, made.ptx),
        format_cmake_archs(made.targets, made.ptx),
    )


def windows(**changes: Any) -> tuple[Environment, Environment]:
    venv = PureWindowsPath("C:/y/build/p/venv")
    made = job(system="windows", venv=venv, flags={}, variables={}, **changes)
    toolkit = CudaHome(r"C:\y\build\p\cuda", "13.2.86", PINS)
    scripts = r"C:\y\build\p\venv\Scripts"
    return resolve_environments(
        made, deps(toolkit=toolkit, scripts=scripts, cc=NONE, cxx=NONE, msvc=MSVC)
    )


def test_source_build_environment_is_exact() -> None:
    full, _ = resolve_environments(job(), deps())
    assert full.set == {
        "PYTHONNOUSERSITE": "1",
        "VIRTUAL_ENV": "/y/build/p/venv",
        "CC": "/usr/bin/gcc",
        "CXX": "/usr/bin/g++",
        "CUDAHOSTCXX": "/usr/bin/g++",
        "CUDA_HOME": "/y/build/p/cuda",
        "CUDA_PATH": "/y/build/p/cuda",
        "CUDACXX": "/y/build/p/cuda/bin/nvcc",
        "TORCH_CUDA_ARCH_LIST": "8.9;12.0",
        "USE_CUDA": "1",
        "USE_NCCL": "0",
        "BUILD_TEST": "1",
        "USE_BLAS_X": "some",
        "CMAKE_GENERATOR": "Ninja",
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_LINK_DEPENDS_NO_SHARED": "ON",
        "CMAKE_BUILD_RPATH_USE_ORIGIN": "ON",
        "TORCH_NVCC_FLAGS": "-Xfatbin -compress-all",
    }
    assert full.prepend == {"PATH": ("/y/build/p/venv/bin", "/y/build/p/cuda/bin")}
    assert full.separator == ":"


def test_configured_folder_keeps_its_rpath_setting() -> None:
    name = "CMAKE_BUILD_RPATH_USE_ORIGIN"
    full, _ = resolve_environments(job(), deps())
    assert name not in full.keep_configured_launchers({"CMAKE_GENERATOR": "Ninja"}).set
    assert full.keep_configured_launchers({name: "ON"}).set[name] == "ON"
    asked, _ = resolve_environments(job(variables={name: "OFF"}), deps())
    assert asked.keep_configured_launchers({name: "ON"}).set[name] == "OFF"


def test_torch_build_flags_do_not_reach_extensions() -> None:
    _, extension = resolve_environments(job(), deps())
    other, same = resolve_environments(
        job(flags={"USE_NCCL": True}, variables={}, build_type="Debug"), deps()
    )
    assert extension == same != other
    assert not [name for name in extension.set if name.startswith(("USE_", "BUILD_", "CMAKE_"))]
    assert extension.set["CUDAARCHS"] == "89-real;120-real"


def test_torch_build_gets_no_cmake_architectures() -> None:
    full, _ = resolve_environments(job(), deps())
    assert not {"CUDAARCHS", "CMAKE_CUDA_ARCHITECTURES"} & full.set.keys()
    assert {"CUDAARCHS", "CMAKE_CUDA_ARCHITECTURES"} <= set(full.unset)


@pytest.mark.parametrize("strategy", ["prebuilt", "existing"])
def test_build_and_extension_environments_agree_without_source_build(strategy: str) -> None:
    full, extension = resolve_environments(job(strategy=strategy), deps())
    assert replace(full, why={}) == extension
    assert "USE_NCCL" not in full.set


def test_ptx_is_requested_for_newest_target() -> None:
    _, extension = resolve_environments(job(ptx=True), deps())
    assert extension.set["TORCH_CUDA_ARCH_LIST"] == "8.9;12.0+PTX"
    assert extension.set["CUDAARCHS"] == "89-real;120"


def test_cpu_build_unsets_toolkit_variables() -> None:
    full, extension = resolve_environments(job(cuda=None, targets=(), flags={}), deps(home=None))
    assert full.set["USE_CUDA"] == "0"
    assert full.prepend == {"PATH": ("/y/build/p/venv/bin",)}
    cuda = {"CUDA_HOME", "CUDA_PATH", "CUDACXX", "TORCH_CUDA_ARCH_LIST", "CUDAHOSTCXX"}
    assert cuda <= set(full.unset) & set(extension.unset)


def test_existing_torch_gets_tools_from_overlay() -> None:
    _, extension = resolve_environments(
        job(strategy="existing"), deps(overlay="/y/build/p/overlay")
    )
    assert extension.set["PYTHONPATH"] == "/y/build/p/overlay"
    assert "VIRTUAL_ENV" not in extension.set
    assert "PYTHONPATH" not in extension.unset


@pytest.mark.parametrize(
    ("strategy", "home", "pins", "needed"),
    [
        ("source", "/usr/local/cuda", (), True),
        ("source", "/y/build/p/cuda", PINS, False),
        ("source", "/usr", (), False),
        ("prebuilt", "/usr/local/cuda", (), False),
    ],
)
def test_toolkit_libraries_are_on_path_only_if_needed(
    strategy: str, home: str, pins: tuple[str, ...], needed: bool
) -> None:
    toolkit = CudaHome(home, "12.4.131", pins)
    full, _ = resolve_environments(job(strategy=strategy), deps(toolkit=toolkit))
    expected = {"LD_LIBRARY_PATH": (f"{home}/lib64",)} if needed else {}
    assert {name: full.prepend[name] for name in full.prepend if name != "PATH"} == expected


def test_mkl_from_python_packages_is_found_in_venv() -> None:
    full, extension = resolve_environments(job(blas="mkl"), deps())
    assert (full.set["BLAS"], full.set["CMAKE_PREFIX_PATH"]) == ("MKL", "/y/build/p/venv")
    assert "BLAS" not in extension.set
    openblas, _ = resolve_environments(job(blas="openblas"), deps())
    assert openblas.set["BLAS"] == "OpenBLAS"
    assert "CMAKE_PREFIX_PATH" in openblas.unset


def test_build_env_has_precedence() -> None:
    full, _ = resolve_environments(
        job(variables={"CMAKE_GENERATOR": "Unix Makefiles", "MAX_JOBS": "3"}), deps()
    )
    assert full.set["CMAKE_GENERATOR"] == "Unix Makefiles"
    assert "MAX_JOBS" not in full.unset


def test_no_variable_is_both_set_and_unset() -> None:
    for environment in (*resolve_environments(job(), deps()), *windows()):
        assert not set(environment.unset) & environment.set.keys()
        assert list(environment.unset) == sorted(environment.unset)
        assert {"MAX_JOBS", "CFLAGS", "NVCC_PREPEND_FLAGS", "PYTHONHOME"} <= set(environment.unset)


def test_windows_extension_environment_is_exact() -> None:
    _, extension = windows()
    assert extension.set == {
        "PYTHONNOUSERSITE": "1",
        "VIRTUAL_ENV": r"C:\y\build\p\venv",
        "INCLUDE": MSVC.set["INCLUDE"],
        "VCTOOLSVERSION": "14.44.35207",
        "DISTUTILS_USE_SDK": "1",
        "MSSDK": "1",
        "CC": "cl",
        "CXX": "cl",
        "VSLANG": "1033",
        "CUDA_HOME": r"C:\y\build\p\cuda",
        "CUDA_PATH": r"C:\y\build\p\cuda",
        "CUDACXX": "C:/y/build/p/cuda/bin/nvcc.exe",
        "TORCH_CUDA_ARCH_LIST": "8.9;12.0",
        "CUDAARCHS": "89-real;120-real",
        "CL": "/Zc:preprocessor /DUSE_CUDA",
        "NVCC_APPEND_FLAGS": "-Xcompiler /Zc:preprocessor -DUSE_CUDA",
    }
    assert extension.separator == ";"
    assert extension.prepend == {
        "PATH": (
            r"C:\y\build\p\venv\Scripts",
            r"C:\y\build\p\cuda\bin",
            r"C:\y\build\p\cuda\bin\x86_64",
            r"C:\VS\VC\bin",
            r"C:\SDK\bin",
        )
    }


def test_windows_torch_build_gets_only_preprocessor_flag() -> None:
    full, _ = windows()
    assert (full.set["CL"], full.set["USE_CUDA"]) == ("/Zc:preprocessor", "1")
    assert full.set["NVCC_APPEND_FLAGS"] == "-Xcompiler /Zc:preprocessor"


def test_windows_flags_depend_on_toolkit_and_release() -> None:
    made = job(system="windows", torch="2.8.0", strategy="prebuilt")
    _, old = resolve_environments(made, deps(toolkit=CudaHome(r"C:\cuda", "12.9.86", ())))
    assert not {"CL", "NVCC_APPEND_FLAGS"} & old.set.keys()
    assert old.prepend["PATH"][1:] == (r"C:\cuda\bin",)
    _, installed = resolve_environments(made, deps(toolkit=CudaHome(r"C:\cuda", "13.0.88", ())))
    assert installed.prepend["PATH"][2] == r"C:\cuda\bin\x64"


def test_folder_with_path_separator_is_refused() -> None:
    with pytest.raises(TorchyardError, match=r"^/a:b/bin: .*PATH.*\n.*move the project"):
        resolve_environments(job(), deps(scripts="/a:b/bin"))


def choice(**changes: Any) -> Resolution:
    return replace(PREBUILT, **changes)


LAYOUT = Layout(Project.of_checkout(PurePosixPath("/y")), "p", PurePosixPath("/y/wheelhouse"))


def inputs(build: Mapping[str, Any], **changes: Any) -> Mapping[str, Any]:
    return plan(Settings(build=Build(**build)), LAYOUT, choice(**changes), KNOWLEDGE).fingerprint


def test_stage_outputs_are_three_manifests_and_script_per_shell() -> None:
    stage = plan(Settings(), LAYOUT, choice(), KNOWLEDGE)
    assert [leaf.name for leaf in stage.outputs] == [
        *("env.json", "extension-env.json", "cache-env.json"),
    ]
    names = ("env.sh", "env.ps1", "run.sh", "run.ps1", "run")
    assert stage.extra_outputs == tuple(LAYOUT.build / name for name in names)
    assert stage.inputs == (
        LAYOUT.compute_manifest_path("deps"),
        LAYOUT.compute_manifest_path("cache"),
    )
    source = plan(Settings(), LAYOUT, choice(strategy="source"), KNOWLEDGE)
    assert source.inputs == (*stage.inputs, LAYOUT.compute_manifest_path("source"))
    windows = plan(Settings(), LAYOUT, choice(system="windows"), KNOWLEDGE).extra_outputs
    assert [path.name for path in windows] == ["env.bat", "env.ps1", "run.bat", "run.ps1"]


def test_fingerprint_has_flags_only_for_source_build_and_no_jobs() -> None:
    assert inputs({"jobs": 3}) == inputs({}) == inputs({"flags": {"USE_NCCL": False}})
    assert inputs({}, strategy="source") != inputs({"type": "Debug"}, strategy="source")
    assert inputs({}, targets=(Arch(9, 0),)) != inputs({})


def test_archs_are_formatted_for_each_reader() -> None:
    made = choice(strategy="source", targets=(Arch(12, 0, "f"), Arch(9, 0)))
    found = plan(Settings(), LAYOUT, made, KNOWLEDGE).job.arch_lists
    assert (found.torch, found.cmake) == ("9.0;12.0f", "90-real;120f-real")


def test_archs_unknown_to_torch_are_passed_to_extensions() -> None:
    made = choice(strategy="source", torch="2.6.0")
    found = plan(Settings(), LAYOUT, made, KNOWLEDGE).job.arch_lists
    assert found == ArchLists("12.0", "12.0", "120-real")


@pytest.mark.parametrize(
    ("changes", "where", "what"),
    [
        (
            {"torch": "2.5.1"},
            "torch.version",
            "torch 2.5.1 does not accept 12.0 for its source build",
        ),
        ({"targets": (Arch(9, 0, "a"),), "ptx": True}, "target.ptx", "PTX for 9.0a"),
    ],
)
def test_arch_unsupported_by_torch_cmake_is_refused_at_planning(
    changes: Mapping[str, Any], where: str, what: str
) -> None:
    with pytest.raises(SettingsError, match=what) as caught:
        plan(Settings(), LAYOUT, choice(strategy="source", **changes), KNOWLEDGE)
    assert caught.value.location == where
