"""Tests of the variables for an extension's build: jobs, archs, headers and flags."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.core.deps_model import CompilerCache, DepsManifest, Program
from tasks.core.model import Layout
from tasks.core.project import Project
from tasks.settings.schema import parse_settings
from tasks.stages.env.model import CacheEnvironment
from tasks.stages.extensions.extension_environment_io import (
    add_reproducible_flags,
    compute_job_count,
    format_forced_header,
    locate_forced_header,
    merge_environment,
    set_job_count,
)
from tasks.stages.extensions.model import ExtensionJob
from tasks.stages.extensions.plan import plan_extension
from tasks.system import shell
from tasks.system.hardware import capacity
from tests.support.actionyard import CHOICE, script
from tests.support.checkout import KNOWLEDGE

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="not run: programs as scripts")
NONE = Program("", "")
PLAIN = CacheEnvironment(CompilerCache(), {}, {}, {})
SAFE = 6


@pytest.fixture(autouse=True)
def safe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "compute_safe_jobs", lambda *_: SAFE)


def extension(jobs: object = "auto", **env: str) -> ExtensionJob:
    listed = [{"name": "toy", "path": "toy", "env": env}]
    settings = parse_settings({"build": {"jobs": jobs}, "extensions": listed})
    layout = Layout(Project.of_checkout(Path("/yard")), "p", Path("/yard/wheelhouse"))
    job = plan_extension(settings.extensions[0], settings, layout, CHOICE, KNOWLEDGE).job
    assert isinstance(job, ExtensionJob)
    return job


def ninja(folder: Path, version: str) -> Program:
    folder.mkdir(parents=True)
    path = script(folder / "ninja", f"#!/bin/sh\necho {version}\n")
    return Program(path, version)


def job_count(
    job: ExtensionJob, folder: Path, caching: CacheEnvironment = PLAIN, before: str = "", **env: str
) -> int | None:
    """Compute the job count with Ninja 1.13.1 on PATH, behind the folder `before`."""
    own = ninja(folder / "ours", "1.13.1")
    deps = DepsManifest("", "3.12.0", "1", None, "", None, None, NONE, NONE, NONE, own, None)
    path = f"{before}:{folder / 'ours'}:/usr/bin:/bin"
    return compute_job_count(job, deps, caching, {"PATH": path, **env, **job.env})


def test_jobserver_sets_job_count_by_default(tmp_path: Path) -> None:
    assert job_count(extension(), tmp_path) is None


@pytest.mark.parametrize(
    ("job", "jobs", "exact"),
    [
        (extension(3), None, 3),
        (extension(MAX_JOBS="2"), None, 2),
        (extension(3, CMAKE_BUILD_PARALLEL_LEVEL="8"), None, 8),
        (extension(MAKEFLAGS="-j4"), SAFE, SAFE),
        (extension(8, MAKEFLAGS="-j4"), SAFE, 8),
        (extension(3, CC="sccache gcc"), 3, 3),
        (extension(8, CMAKE_CUDA_COMPILER_LAUNCHER="/opt/sccache"), SAFE, 8),
    ],
)
def test_job_count_is_limit_unless_exact(
    tmp_path: Path, job: ExtensionJob, jobs: int | None, exact: int
) -> None:
    assert job_count(job, tmp_path / "limit") == jobs
    assert job_count(replace(job, jobs_exact=True), tmp_path / "exact") == exact


def test_job_count_is_fixed_with_sccache(tmp_path: Path) -> None:
    served = CacheEnvironment(CompilerCache("sccache", "/usr/bin/sccache", "0.16.0"), {}, {}, {})
    assert job_count(extension(), tmp_path, served) == SAFE
    beside = CacheEnvironment(CompilerCache("ccache", "/usr/bin/ccache", "4.9"), {}, {}, {})
    assert job_count(extension(), tmp_path / "beside", beside) is None


def test_first_ninja_on_path_must_support_jobserver(tmp_path: Path) -> None:
    ninja(tmp_path / "old", "1.11.1")
    assert job_count(extension(), tmp_path, before=str(tmp_path / "old")) == SAFE


def test_jobserver_unsets_job_variables_and_fixed_count_sets_both() -> None:
    env = {"MAX_JOBS": "9", "CC": "cc"}
    assert set_job_count(extension(), env, None) == {"CC": "cc"}
    both = {"CC": "cc", "MAX_JOBS": "4", "CMAKE_BUILD_PARALLEL_LEVEL": "4"}
    assert set_job_count(extension(), env, 4) == both


def test_user_job_count_is_kept_unless_fewer_jobs_are_allowed() -> None:
    job = extension(MAX_JOBS="2", CMAKE_BUILD_PARALLEL_LEVEL="8")
    values = [list(set_job_count(job, {}, jobs).values()) for jobs in (8, 4, 1)]
    assert values == [["2", "8"], ["2", "4"], ["1", "1"]]


def test_setup_py_with_own_job_count_gets_fixed_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own count would become Ninja's -j, which disables the jobserver."""
    heard: list[int] = []

    def safe_jobs(compiler_mib: int, _: int = 0) -> int:
        heard.append(compiler_mib)
        return SAFE

    monkeypatch.setattr(capacity, "compute_safe_jobs", safe_jobs)
    job = replace(extension(), own_jobs=True, compiler_mib=5300)
    assert job_count(job, tmp_path) == SAFE
    assert heard == [5300]
    assert job_count(replace(job, jobs=3), tmp_path / "asked") == 3


def test_extra_nvcc_flags_come_last() -> None:
    """nvcc uses the last of two standards."""
    job = replace(extension(), includes=("cfloat",), nvcc=("-std=c++20",))
    env = merge_environment(job, {"NVCC_APPEND_FLAGS": "-Xcompiler /Zc:preprocessor"})
    words = "-Xcompiler /Zc:preprocessor -include cfloat -std=c++20"
    assert env["NVCC_APPEND_FLAGS"] == words
    assert (
        merge_environment(job, {"CPPFLAGS": "-DA"})["CPPFLAGS"]
        == f"-DA -include {locate_forced_header(job)}"
    )
    assert "CL" not in env
    windows = merge_environment(replace(job, system="windows"), {"CL": "/DUSE_CUDA"})
    assert windows["CL"] == "/DUSE_CUDA /FIcfloat"
    assert merge_environment(extension(), {}).keys() == {"PIP_DISABLE_PIP_VERSION_CHECK"}


def add_flags(job: ExtensionJob, compiler: str, **env: str) -> dict[str, str]:
    cxx = Program("/usr/bin/g++", compiler)
    deps = DepsManifest("", "3.12.0", "1", None, "", None, None, NONE, cxx, NONE, NONE, None)
    return add_reproducible_flags(job, deps, env, 0)


def test_build_path_and_time_are_kept_out_of_outputs() -> None:
    mapped = "-ffile-prefix-map=/yard/build/p=."
    assert add_flags(extension(), "12.2.0")["CPPFLAGS"] == mapped
    own = add_flags(extension(), "12.2.0", CPPFLAGS="-DX", SOURCE_DATE_EPOCH="7")
    assert own == {"CPPFLAGS": f"-DX {mapped}", "SOURCE_DATE_EPOCH": "7"}


def test_prefix_map_is_omitted_if_unsupported() -> None:
    for compiler in ("9.4.0", "", "unknown"):
        assert "CPPFLAGS" not in add_flags(extension(), compiler)
    assert "CPPFLAGS" not in add_flags(replace(extension(), system="windows"), "19.44")
    spaced = Layout(Project.of_checkout(Path("/my yard")), "p", Path("/my yard/wheelhouse"))
    assert "CPPFLAGS" not in add_flags(replace(extension(), layout=spaced), "12.2.0")


_ONE = """
from setuptools import Extension, setup
setup(name="u", ext_modules=[Extension("u", [{!r}])])
"""


@pytest.mark.parametrize("suffix", ["cpp", "c"])
def test_forced_header_reaches_host_compiler(tmp_path: Path, suffix: str) -> None:
    """Runs the installed setuptools with real compilers."""
    name = "std::uint32_t" if suffix == "cpp" else "uint32_t"
    (tmp_path / f"u.{suffix}").write_text(f"{name} answer = 42;\n", encoding="utf-8")
    (tmp_path / "setup.py").write_text(_ONE.format(f"u.{suffix}"), encoding="utf-8")
    argv = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]

    def built(includes: tuple[str, ...]) -> bool:
        job = replace(extension(), includes=includes, work=tmp_path)
        locate_forced_header(job).write_text(format_forced_header(includes), encoding="utf-8")
        env = merge_environment(job, shell.build_host_env())
        run = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, check=False)
        return run.returncode == 0

    assert not built(())
    assert built(("cstdint",))
