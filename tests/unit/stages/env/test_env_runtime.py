"""Tests of the runtime environment and of its wrapper scripts."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePath, PureWindowsPath
from typing import Any

import pytest

from tasks.core.canonical_json import format_canonical_json
from tasks.core.deps_model import CompilerCache, CudaHome, MsvcEnvironment
from tasks.settings.schema import parse_settings
from tasks.stages.env.environment_variables import resolve_runtime_environment
from tasks.stages.env.model import Environment
from tasks.stages.env.plan import plan
from tasks.stages.env.run import run, write_wrappers
from tasks.system import manifests
from tests.support.checkout import KNOWLEDGE
from tests.support.shellcases import HOSTILE, JOB, TEMPLATES, environment_of, seen
from tests.support.systems import needs_links
from tests.unit.stages.env.test_env_resolve import LAYOUT, NONE, PINS, choice, deps, job


def test_runtime_environment_is_exact() -> None:
    found = resolve_runtime_environment(job(runtime={"DEVICE": "auto"}), deps())
    assert found.set == {
        "PYTHONNOUSERSITE": "1",
        "VIRTUAL_ENV": "/y/build/p/venv",
        "CC": deps().cc.path,
        "CXX": deps().cxx.path,
        "CUDA_HOME": "/y/build/p/cuda",
        "CUDA_PATH": "/y/build/p/cuda",
        "TORCH_CUDA_ARCH_LIST": "8.9;12.0",
        "DEVICE": "auto",
    }
    assert found.prepend == {"PATH": ("/y/build/p/venv/bin", "/y/build/p/cuda/bin")}
    assert found.unset == ("PYTHONHOME", "PYTHONPATH", "PYTHONPLATLIBDIR")
    assert set(found.why) == set(found.names)


def test_existing_interpreter_is_first_on_path() -> None:
    tools = deps(python="/opt/conda/bin/python", overlay="/y/build/p/overlay", scripts="/y/o/bin")
    found = resolve_runtime_environment(job(strategy="existing"), tools)
    assert found.prepend["PATH"] == ("/opt/conda/bin", "/y/o/bin", "/y/build/p/cuda/bin")
    assert {"PYTHONPATH", "VIRTUAL_ENV"} <= set(found.unset)
    windows = job(strategy="existing", system="windows", venv=PureWindowsPath(r"C:\y\venv"))
    tools = deps(python=r"C:\Py\python.exe", overlay=r"C:\y\o", scripts=r"C:\y\o\bin", home=None)
    assert resolve_runtime_environment(windows, tools).prepend["PATH"][0] == r"C:\Py"


def test_cpu_runtime_gets_no_toolkit() -> None:
    found = resolve_runtime_environment(
        job(cuda=None, targets=()), deps(home=None, cc=NONE, cxx=NONE)
    )
    assert found.set == {"PYTHONNOUSERSITE": "1", "VIRTUAL_ENV": "/y/build/p/venv"}


def test_windows_runtime_has_msvc_for_jit_compilation() -> None:
    windows = job(system="windows", venv=PureWindowsPath(r"C:\y\venv"))
    msvc = MsvcEnvironment("vcvarsall x64", {"INCLUDE": r"C:\VS\include"}, (r"C:\VS\bin",))
    found = resolve_runtime_environment(windows, deps(msvc=msvc))
    assert found.set["INCLUDE"] == r"C:\VS\include"
    assert found.why["INCLUDE"] == "vcvarsall x64"
    assert found.prepend["PATH"][-1] == r"C:\VS\bin"
    assert "-DUSE_CUDA" in found.set["NVCC_APPEND_FLAGS"]


def test_runtime_finds_toolkit_libraries_torch_was_linked_with() -> None:
    linked = deps(toolkit=CudaHome("/usr/local/cuda", "12.4.131", ()))
    found = resolve_runtime_environment(job(), linked)
    assert found.prepend["LD_LIBRARY_PATH"] == ("/usr/local/cuda/lib64",)
    assert "LD_LIBRARY_PATH" not in resolve_runtime_environment(job(), deps()).prepend


def test_runtime_env_has_precedence_and_empty_unsets_on_windows() -> None:
    runtime = {"CUDA_HOME": "/mine", "PYTHONPATH": "/src", "PYTHONNOUSERSITE": ""}
    found = resolve_runtime_environment(job(runtime=runtime), deps())
    assert {name: found.set[name] for name in runtime} == runtime
    assert "PYTHONPATH" not in found.unset
    windows = job(runtime=runtime, system="windows", venv=PureWindowsPath(r"C:\y\venv"))
    gone = resolve_runtime_environment(windows, deps(cc=NONE, cxx=NONE))
    assert "PYTHONNOUSERSITE" in gone.unset
    assert "PYTHONNOUSERSITE" not in gone.set


def stage(runtime: Mapping[str, Any], **changes: Any) -> Any:
    config = parse_settings({"runtime": runtime})
    return plan(config, LAYOUT, choice(**changes), KNOWLEDGE)


def test_launch_blocking_sets_its_variable() -> None:
    assert stage({"env": {"DEVICE": "auto"}}).job.runtime == {"DEVICE": "auto"}
    assert stage({"launch_blocking": True}).job.runtime == {"CUDA_LAUNCH_BLOCKING": "1"}
    both = {"launch_blocking": True, "env": {"CUDA_LAUNCH_BLOCKING": "0"}}
    assert stage(both).job.runtime == {"CUDA_LAUNCH_BLOCKING": "0"}


@needs_links  # `run` is a symlink
def test_changed_runtime_environment_rebuilds_nothing(tmp_path: Path) -> None:
    """The stage reruns, but its manifests keep their bytes."""
    assert stage({}).fingerprint != stage({"env": {"DEVICE": "cpu"}}).fingerprint
    manifests.write_manifest(
        tmp_path / "deps.json", deps(home="/c", toolkit=CudaHome("/c", "13.2", PINS))
    )
    manifests.write_manifest(tmp_path / "cache.json", CompilerCache())
    files = {"deps": tmp_path / "deps.json", "cache": tmp_path / "cache.json"}
    here = {"scripts": (tmp_path / "env.sh",), "wrappers": (tmp_path / "run.sh",)}
    env_job = job(strategy="prebuilt", templates=TEMPLATES, **files, **here)
    results, scripts = [], []
    for runtime in ({}, {"DEVICE": "cpu"}):
        results.append(
            [format_canonical_json(one) for one in run(replace(env_job, runtime=runtime))]
        )
        scripts.append([(tmp_path / name).read_text() for name in ("env.sh", "run")])
    assert results[0] == results[1]
    assert scripts[0][0] == scripts[1][0]
    assert "DEVICE" in scripts[1][1]
    assert "DEVICE" not in scripts[0][1]


# The wrapper script `run`, executed


@pytest.fixture
def wrapper(tmp_path: Path) -> Path:
    if sys.platform == "win32":
        pytest.skip("not run: Windows has run.bat, which Wine tries")
    given = Environment(
        {"V_A": "it's $x", "V_B": "a\nb"},
        {"PATH": ("/new", "/b"), "LD_LIBRARY_PATH": ("/lib64",)},
        ("PYTHONPATH",),
        ":",
    )
    write_wrappers(replace(JOB, wrappers=(tmp_path / "run.sh",)), given)
    return tmp_path / "run"


def run_wrapper(wrapper: Path, *argv: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([wrapper, *argv], env=env, capture_output=True, check=False)


def test_run_is_relative_link(wrapper: Path) -> None:
    assert wrapper.readlink() == PurePath("run.sh")
    assert stat.S_IMODE(wrapper.stat().st_mode) == 0o755


def test_arguments_reach_program_unchanged(wrapper: Path) -> None:
    dump_arguments = ["-c", "import json, sys; print(json.dumps(sys.argv[1:]))"]
    given = [*HOSTILE, "lr=0.1", "-x", "--", "a\nb", ""]
    done = run_wrapper(wrapper, sys.executable, *dump_arguments, *given, PATH=os.defpath)
    assert done.stderr == b""
    assert json.loads(done.stdout) == given


def test_program_sees_environment_without_helper_variables(wrapper: Path, tmp_path: Path) -> None:
    base = {"PATH": "/usr/bin::/b:/bin", "PYTHONPATH": "/x", "V_A": "old", "_torchyard_rest": "x"}
    done = run_wrapper(wrapper, "/usr/bin/env", "-0", **base)
    (tmp_path / "output").write_bytes(done.stdout)
    assert done.stderr == b""
    assert environment_of(tmp_path / "output") == seen(
        {
            "PATH": "/new:/b:/usr/bin:/bin",
            "LD_LIBRARY_PATH": "/lib64",
            "V_A": "it's $x",
            "V_B": "a\nb",
        }
    )


def test_wrapper_exits_like_its_program(wrapper: Path) -> None:
    assert run_wrapper(wrapper, "/bin/sh", "-c", "exit 7").returncode == 7
    assert run_wrapper(wrapper, "/bin/sh", "-c", "kill -9 $$").returncode == -9
    assert run_wrapper(wrapper, "no-such-program", PATH="/bin").returncode == 127


def test_wrapper_without_program_prints_usage(wrapper: Path) -> None:
    done = run_wrapper(wrapper)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(f"usage: {wrapper} PROGRAM [ARGUMENTS]".encode())
