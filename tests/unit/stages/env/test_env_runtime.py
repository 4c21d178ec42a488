"""What programs run with: resolved apart from the build, written as wrappers."""

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


def test_a_program_gets_exactly_this() -> None:
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


def test_an_existing_interpreter_is_the_python_that_runs() -> None:
    tools = deps(python="/opt/conda/bin/python", overlay="/y/build/p/overlay", scripts="/y/o/bin")
    found = resolve_runtime_environment(job(strategy="existing"), tools)
    assert found.prepend["PATH"] == ("/opt/conda/bin", "/y/o/bin", "/y/build/p/cuda/bin")
    assert {"PYTHONPATH", "VIRTUAL_ENV"} <= set(found.unset)
    windows = job(strategy="existing", system="windows", venv=PureWindowsPath(r"C:\y\venv"))
    tools = deps(python=r"C:\Py\python.exe", overlay=r"C:\y\o", scripts=r"C:\y\o\bin", home=None)
    assert resolve_runtime_environment(windows, tools).prepend["PATH"][0] == r"C:\Py"


def test_a_torch_for_the_cpu_gets_no_toolkit() -> None:
    found = resolve_runtime_environment(
        job(cuda=None, targets=()), deps(home=None, cc=NONE, cxx=NONE)
    )
    assert found.set == {"PYTHONNOUSERSITE": "1", "VIRTUAL_ENV": "/y/build/p/venv"}


def test_what_is_compiled_at_first_use_on_windows_has_msvc_around_it() -> None:
    windows = job(system="windows", venv=PureWindowsPath(r"C:\y\venv"))
    msvc = MsvcEnvironment("vcvarsall x64", {"INCLUDE": r"C:\VS\include"}, (r"C:\VS\bin",))
    found = resolve_runtime_environment(windows, deps(msvc=msvc))
    assert found.set["INCLUDE"] == r"C:\VS\include"
    assert found.why["INCLUDE"] == "vcvarsall x64"
    assert found.prepend["PATH"][-1] == r"C:\VS\bin"
    assert "-DUSE_CUDA" in found.set["NVCC_APPEND_FLAGS"]


def test_libraries_of_the_toolkit_are_found_where_torch_was_linked_against_them() -> None:
    linked = deps(toolkit=CudaHome("/usr/local/cuda", "12.4.131", ()))
    found = resolve_runtime_environment(job(), linked)
    assert found.prepend["LD_LIBRARY_PATH"] == ("/usr/local/cuda/lib64",)
    assert "LD_LIBRARY_PATH" not in resolve_runtime_environment(job(), deps()).prepend


def test_what_a_person_wrote_into_runtime_env_wins_and_empty_is_unset_on_windows() -> None:
    runtime = {"CUDA_HOME": "/mine", "PYTHONPATH": "/src", "PYTHONNOUSERSITE": ""}
    found = resolve_runtime_environment(job(runtime=runtime), deps())
    assert {name: found.set[name] for name in runtime} == runtime
    assert "PYTHONPATH" not in found.unset
    windows = job(runtime=runtime, system="windows", venv=PureWindowsPath(r"C:\y\venv"))
    gone = resolve_runtime_environment(windows, deps(cc=NONE, cxx=NONE))
    assert "PYTHONNOUSERSITE" in gone.unset
    assert "PYTHONNOUSERSITE" not in gone.set


def stage(runtime: Mapping[str, Any], **changes: Any) -> Any:
    asked = parse_settings({"runtime": runtime})
    return plan(asked, LAYOUT, choice(**changes), KNOWLEDGE)


def test_errors_are_told_where_they_happen_on_request() -> None:
    assert stage({"env": {"DEVICE": "auto"}}).job.runtime == {"DEVICE": "auto"}
    assert stage({"launch_blocking": True}).job.runtime == {"CUDA_LAUNCH_BLOCKING": "1"}
    both = {"launch_blocking": True, "env": {"CUDA_LAUNCH_BLOCKING": "0"}}
    assert stage(both).job.runtime == {"CUDA_LAUNCH_BLOCKING": "0"}


@needs_links  # `run` is one
def test_a_changed_run_time_environment_rebuilds_nothing(tmp_path: Path) -> None:
    """The stage runs again, and what others read of it keeps its bytes."""
    assert stage({}).fingerprint != stage({"env": {"DEVICE": "cpu"}}).fingerprint
    manifests.write_manifest(
        tmp_path / "deps.json", deps(home="/c", toolkit=CudaHome("/c", "13.2", PINS))
    )
    manifests.write_manifest(tmp_path / "cache.json", CompilerCache())
    files = {"deps": tmp_path / "deps.json", "cache": tmp_path / "cache.json"}
    here = {"scripts": (tmp_path / "env.sh",), "wrappers": (tmp_path / "run.sh",)}
    made = job(strategy="prebuilt", templates=TEMPLATES, **files, **here)
    left, scripts = [], []
    for runtime in ({}, {"DEVICE": "cpu"}):
        left.append([format_canonical_json(one) for one in run(replace(made, runtime=runtime))])
        scripts.append([(tmp_path / name).read_text() for name in ("env.sh", "run")])
    assert left[0] == left[1]
    assert scripts[0][0] == scripts[1][0]
    assert "DEVICE" in scripts[1][1]
    assert "DEVICE" not in scripts[0][1]


# run, as it is started


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


def started(wrapper: Path, *argv: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([wrapper, *argv], env=env, capture_output=True, check=False)


def test_run_is_a_link_that_stays_right_when_the_folder_moves(wrapper: Path) -> None:
    assert wrapper.readlink() == PurePath("run.sh")
    assert stat.S_IMODE(wrapper.stat().st_mode) == 0o755


def test_arguments_reach_the_program_as_they_are(wrapper: Path) -> None:
    look = ["-c", "import json, sys; print(json.dumps(sys.argv[1:]))"]
    given = [*HOSTILE, "lr=0.1", "-x", "--", "a\nb", ""]
    done = started(wrapper, sys.executable, *look, *given, PATH=os.defpath)
    assert done.stderr == b""
    assert json.loads(done.stdout) == given


def test_the_program_sees_the_environment_and_no_helper(wrapper: Path, tmp_path: Path) -> None:
    base = {"PATH": "/usr/bin::/b:/bin", "PYTHONPATH": "/x", "V_A": "old", "_torchyard_rest": "x"}
    done = started(wrapper, "/usr/bin/env", "-0", **base)
    (tmp_path / "told").write_bytes(done.stdout)
    assert done.stderr == b""
    assert environment_of(tmp_path / "told") == seen(
        {
            "PATH": "/new:/b:/usr/bin:/bin",
            "LD_LIBRARY_PATH": "/lib64",
            "V_A": "it's $x",
            "V_B": "a\nb",
        }
    )


def test_its_exit_code_is_the_programs_and_its_place_too(wrapper: Path) -> None:
    assert started(wrapper, "/bin/sh", "-c", "exit 7").returncode == 7
    assert started(wrapper, "/bin/sh", "-c", "kill -9 $$").returncode == -9
    assert started(wrapper, "no-such-program", PATH="/bin").returncode == 127


def test_without_a_program_it_says_how(wrapper: Path) -> None:
    done = started(wrapper)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(f"usage: {wrapper} PROGRAM [ARGUMENTS]".encode())
