"""compile on the toy tree with a real CMake, Ninja and compiler, through the actions."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path, PurePath

import pytest

from tasks.core.canonical_json import format_canonical_json
from tasks.core.deps_model import DepsManifest
from tasks.core.errors import CommandFailedError, TorchyardError
from tasks.jobs import jobserver_io
from tasks.runlog import build_history_io
from tasks.runlog.memory_monitor_io import ObservedMemory
from tasks.stages.compile import build_context_io, run
from tasks.stages.compile.model import CompileJob
from tasks.stages.source.model import SourceTree
from tasks.system import environments, manifests, output
from tasks.system.hardware import capacity, toolchain
from tests.support.actionyard import Yard, deps, make_yard
from tests.support.checkout import Heard
from tests.support.rows import long_but
from tests.support.toytree import Backend

pytestmark = pytest.mark.integration
BACKENDS = ["setup_py", "scikit_build_core"]

IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
SECOND = 1.1  # CMake installs a library again when it is a second newer, and ours take less


@pytest.fixture
def yard(tmp_path: Path, venv: Path) -> Yard:
    return make_yard(tmp_path, venv, "setup_py")


def compiled(job: CompileJob) -> tuple[str, list[str]]:
    """The manifest's bytes, and the sources that were compiled for it."""
    folder = _cmake_folder(job)
    before = build_history_io.read_ninja_log(folder)
    (outputs,) = run.run(job)
    return format_canonical_json(outputs), sources(
        build_history_io.find_new_entries(before, build_history_io.read_ninja_log(folder))
    )


def _cmake_folder(job: CompileJob) -> Path:
    manifest = job.layout.compute_manifest_path("source")
    tree = Path(manifests.read_manifest(manifest, SourceTree).tree)
    is_setup_py = (tree / "setup.py").exists() and job.backend == "auto"
    return tree / "build" if is_setup_py else Path(job.build) / "cmake"


def steps(folder: PurePath) -> list[str]:
    """Sources that Ninja ever compiled there."""
    return sources(build_history_io.read_ninja_log(folder))


def sources(outputs: Iterable[str]) -> list[str]:
    return sorted(Path(name).stem for name in outputs if name.endswith((".cpp.o", ".cpp.obj")))


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.parametrize("backend", BACKENDS)
def test_second_run_makes_nothing_and_a_changed_file_makes_its_object(
    tmp_path: Path, venv: Path, backend: Backend
) -> None:
    yard = make_yard(tmp_path, venv, backend)
    first, made = compiled(yard.job())
    assert made == ["add.cpp", "core.cpp", "text.cpp"]
    assert compiled(yard.job()) == (first, [])
    change(yard.tree / "c10" / "text.cpp", ".size()", ".length() + 1")
    second, again = compiled(yard.job())
    assert second != first
    assert again == ["text.cpp"]


def test_docs_change_leaves_the_same_bytes(yard: Yard) -> None:
    first, _ = compiled(yard.job())
    change(yard.tree / "docs" / "README.md", "Nothing", "Still nothing")
    assert compiled(yard.job()) == (first, [])


@pytest.mark.parametrize("backend", long_but(["setup_py"], BACKENDS))
def test_one_target_compiles_nothing_else(tmp_path: Path, venv: Path, backend: Backend) -> None:
    yard = make_yard(tmp_path, venv, backend)
    first, made = compiled(yard.job(target="c10"))
    assert made == ["core.cpp", "text.cpp"]
    assert compiled(yard.job(target="c10")) == (first, [])


@pytest.mark.parametrize("backend", BACKENDS)
def test_wheel_comes_out_of_what_was_compiled(tmp_path: Path, venv: Path, backend: Backend) -> None:
    yard = make_yard(tmp_path, venv, backend)
    job = yard.job()
    (outputs,) = run.run(job)
    before = steps(Path(outputs.build))
    scripts = environments.find_scripts_folder(venv)
    env = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    env["PYTORCH_BUILD_VERSION"] = "2.6.0+cpu.g1234567"
    argv = outputs.build_wheel_command(tmp_path / "out")
    subprocess.run(argv, cwd=outputs.tree, env=env, check=True, capture_output=True)
    (wheel,) = (tmp_path / "out").iterdir()
    assert wheel.name.startswith("torch-2.6.0+cpu.g1234567-cp")
    assert steps(Path(outputs.build)) == before


def test_libraries_alone_are_found_by_find_package(yard: Yard, tmp_path: Path) -> None:
    (outputs,) = run.run(yard.job(backend="cmake", type="Debug"))
    subprocess.run(
        outputs.build_wheel_command(tmp_path / "libtorch"), check=True, capture_output=True
    )
    program = tmp_path / "program"
    program.mkdir()
    (program / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(p CXX)\nfind_package(Torch REQUIRED)\n"
        "add_executable(p p.cpp)\ntarget_link_libraries(p torch)\n",
        encoding="utf-8",
    )
    (program / "p.cpp").write_text(
        "#include <aten/add.h>\nint main() { return torch_add(1, 1) == 2 ? 0 : 1; }\n",
        encoding="utf-8",
    )
    cmake = deps(yard.venv).cmake.path
    prefix = f"-DCMAKE_PREFIX_PATH={tmp_path / 'libtorch'}"
    for argv in (
        ("-S", str(program), "-B", str(program / "b"), prefix),
        ("--build", program / "b"),
    ):
        subprocess.run([cmake, *argv], check=True, capture_output=True)
    if sys.platform != "win32":  # where the libraries would have to be on PATH
        subprocess.run([program / "b" / "p"], check=True)


@pytest.mark.parametrize("backend", long_but(["scikit_build_core"], BACKENDS))
def test_a_changed_switch_takes_effect_and_only_its_objects_are_made(
    tmp_path: Path, venv: Path, backend: Backend
) -> None:
    yard = make_yard(tmp_path, venv, backend)
    first, _ = compiled(yard.job())
    time.sleep(SECOND)
    loud, made = compiled(yard.job(flags={"USE_LOUD": True}))
    assert made == ["core.cpp", "text.cpp"]  # and not what only links them
    assert loud != first
    assert compiled(yard.job(flags={"USE_LOUD": True})) == (loud, [])
    time.sleep(SECOND)
    quiet, made = compiled(yard.job())
    assert made == ["core.cpp", "text.cpp"]
    assert quiet == first


def test_libraries_alone_take_a_changed_switch_too(yard: Yard) -> None:
    compiled(yard.job(backend="cmake"))
    _, made = compiled(yard.job(backend="cmake", flags={"USE_LOUD": True}))
    assert made == ["core.cpp", "text.cpp"]
    _, made = compiled(yard.job(backend="cmake"))
    assert made == ["core.cpp", "text.cpp"]


def test_changed_compiler_flags_take_effect(yard: Yard) -> None:
    compiled(yard.job(env={"CXXFLAGS": "-DONE"}))
    _, made = compiled(yard.job(env={"CXXFLAGS": "-DTWO"}))
    assert made == ["add.cpp", "core.cpp", "text.cpp"]
    assert "CMAKE_CXX_FLAGS:STRING=-DTWO" in cache_of(yard).read_text(encoding="utf-8")


def test_each_run_leaves_a_line_with_what_was_decided_and_made(yard: Yard) -> None:
    job = yard.job()
    compiled(job)
    compiled(yard.job(flags={"USE_LOUD": True}))
    compiled(yard.job(flags={"USE_LOUD": True}))
    first, second, third = build_history_io.read_history(job.runs)
    assert [run["decision"] for run in (first, second, third)] == [
        "configure",
        "reconfigure",
        "reuse",
    ]
    assert second["changes"] == ["build.flags.USE_LOUD nothing → 1"]
    assert third["objects"] == []
    objects = [item for item in first["objects"] if item["output"].endswith("add.cpp.o")]
    assert objects[0]["seconds"] > 0


def test_what_cmake_does_not_take_is_an_error_before_anything_is_compiled(yard: Yard) -> None:
    change(
        yard.tree / "CMakeLists.txt",
        "option(USE_LOUD",
        'set(USE_LOUD OFF CACHE BOOL "There is no voice here" FORCE)\noption(USE_LOUD',
    )
    with pytest.raises(TorchyardError, match=r"build\.flags\.USE_LOUD is OFF instead of 1"):
        run.run(yard.job(flags={"USE_LOUD": True}))
    assert not steps(yard.tree / "build")
    compiled(yard.job(flags={"USE_LOUD": False}))


def test_another_compiler_wipes_the_folder(yard: Yard, tmp_path: Path) -> None:
    compiled(yard.job(env={"CXX": shutil.which("c++")}))
    stray = yard.tree / "build" / "stray.o"
    stray.touch()
    other = another_compiler(tmp_path)
    _, made = compiled(yard.job(env={"CXX": str(other)}))
    assert made == ["add.cpp", "core.cpp", "text.cpp"]
    assert not stray.exists()
    assert f"CMAKE_CXX_COMPILER:FILEPATH={other}" in cache_of(yard).read_text(encoding="utf-8")


def test_a_compiler_that_was_upgraded_in_place_wipes_the_folder(yard: Yard, tmp_path: Path) -> None:
    other = another_compiler(tmp_path)
    compiled(yard.job(env={"CXX": str(other)}))
    change(other, "1.2.3", "1.2.4")
    toolchain._read_version_lines.cache_clear()  # which lasts as long as a run
    _, made = compiled(yard.job(env={"CXX": str(other)}))
    assert made == ["add.cpp", "core.cpp", "text.cpp"]


def test_a_folder_that_a_person_configured_is_used_and_never_wiped(
    yard: Yard, tmp_path: Path
) -> None:
    yard.job()
    by_hand(yard, "-GNinja", "-DUSE_LOUD=ON", f"-DCMAKE_INSTALL_PREFIX={yard.tree / 'torch'}")
    _, made = compiled(yard.job(env={"CXX": shutil.which("c++")}))
    assert made == ["add.cpp", "core.cpp", "text.cpp"]
    kept = cache_of(yard).read_bytes()
    with pytest.raises(TorchyardError, match="torchyard did not create this one") as caught:
        run.run(yard.job(env={"CXX": str(another_compiler(tmp_path))}))
    assert "the C++ compiler" in str(caught.value)
    assert f"shutil.rmtree(r'{yard.tree / 'build'}')" in caught.value.hint
    assert cache_of(yard).read_bytes() == kept
    assert compiled(yard.job(env={"CXX": shutil.which("c++")}))[1] == []


def test_a_folder_of_another_generator_is_never_touched(yard: Yard) -> None:
    yard.job()
    by_hand(yard, "-GUnix Makefiles")
    kept = cache_of(yard).read_bytes()
    with pytest.raises(TorchyardError, match="generator Unix Makefiles → Ninja"):
        run.run(yard.job())
    assert cache_of(yard).read_bytes() == kept


def test_a_configure_that_failed_leaves_nothing_that_the_next_would_take(yard: Yard) -> None:
    change(yard.tree / "CMakeLists.txt", "set(CMAKE_CXX_STANDARD 17)", "message(FATAL_ERROR no)")
    with pytest.raises(CommandFailedError):
        run.run(yard.job(flags={"USE_LOUD": True}))
    change(yard.tree / "CMakeLists.txt", "message(FATAL_ERROR no)", "set(CMAKE_CXX_STANDARD 17)")
    compiled(yard.job())
    assert "USE_LOUD:BOOL=OFF" in cache_of(yard).read_text(encoding="utf-8")


def test_a_reconfigure_that_failed_can_be_taken_back(yard: Yard) -> None:
    first, _ = compiled(yard.job())
    change(
        yard.tree / "CMakeLists.txt",
        "if(USE_LOUD)",
        "if(USE_LOUD)\nmessage(FATAL_ERROR no)\nendif()\nif(USE_LOUD)",
    )
    with pytest.raises(CommandFailedError):
        run.run(yard.job(flags={"USE_LOUD": True}))
    compiled(yard.job(flags={"USE_LOUD": False}))
    time.sleep(SECOND)
    assert compiled(yard.job())[0] == first


def test_values_of_a_configure_that_was_refused_do_not_stay(yard: Yard) -> None:
    first, _ = compiled(yard.job())
    refusing = 'set(USE_DEAF OFF CACHE BOOL "There is nobody" FORCE)\n'
    change(yard.tree / "CMakeLists.txt", "option(USE_LOUD", f"{refusing}option(USE_LOUD")
    with pytest.raises(TorchyardError, match="USE_DEAF is OFF instead of 1"):
        run.run(yard.job(flags={"USE_LOUD": True, "USE_DEAF": True}))
    time.sleep(SECOND)
    assert compiled(yard.job())[0] == first  # as the error suggests, by taking both out


def test_a_folder_of_a_person_is_asked_for_what_it_was_not_configured_with(yard: Yard) -> None:
    yard.job()
    by_hand(yard, "-GNinja", f"-DCMAKE_INSTALL_PREFIX={yard.tree / 'torch'}")
    _, made = compiled(yard.job(env={"CXXFLAGS": "-DMINE"}))
    assert made == ["add.cpp", "core.cpp", "text.cpp"]
    assert "CMAKE_CXX_FLAGS:STRING=-DMINE" in cache_of(yard).read_text(encoding="utf-8")


def test_what_the_compiler_reads_itself_compiles_everything_again(yard: Yard) -> None:
    compiled(yard.job())
    _, made = compiled(yard.job(env={"CPATH": "/usr/include"}))
    assert made == ["add.cpp", "core.cpp", "text.cpp"]


def cache_of(yard: Yard) -> Path:
    return yard.tree / "build" / "CMakeCache.txt"


def by_hand(yard: Yard, *options: str) -> None:
    folders = ("-S", str(yard.tree), "-B", str(yard.tree / "build"))
    argv = (deps(yard.venv).cmake.path, *folders, *options)
    scripts = environments.find_scripts_folder(yard.venv)
    env = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run(argv, env=env, check=True, capture_output=True)


def another_compiler(folder: Path) -> Path:
    """The compiler of this machine under a name and a version of its own."""
    path = folder / "other-g++"
    path.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo "g++ (other) 1.2.3" && exit\n'
        f'exec {shutil.which("c++")} "$@"\n',
        encoding="utf-8",
    )
    path.chmod(0o755)
    return path


@pytest.fixture
def memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compilers here end themselves, and what they would need is there."""
    monkeypatch.setattr(ObservedMemory, "is_memory_short", lambda _: True)


CROWDED = """\
#!/bin/sh
# a compiler that the kernel kills where another one is at work
case "$*" in *" -c "*/c10/* | *" -c "*/aten/*) ;; *) exec c++ "$@" ;; esac
mkdir "{place}" 2>/dev/null || kill -9 $$
sleep 0.3
c++ "$@"
code=$?
rmdir "{place}"
exit $code
"""

FILLED = """\
#!/bin/sh
# a compiler beside which something else fills the disk
case "$*" in
*" -c "*/aten/*) test -e "{place}" || dd if=/dev/zero of="{place}" bs=1M 2>/dev/null ;;
esac
exec c++ "$@"
"""


@pytest.mark.skipif(not IS_ROOT, reason="not run: mounts need root")
def test_a_disk_that_fills_is_told_and_when_there_is_room_the_build_goes_on(
    tmp_path: Path, venv: Path
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1300m", "tmpfs", small],
        check=False,
        capture_output=True,
    )
    if mounted.returncode:
        pytest.skip("not run: no tmpfs can be mounted here")
    try:
        yard = make_yard(small, venv, "setup_py")
        job = yard.job(env={"CXX": crowded(small, FILLED), "TMPDIR": str(small)})
        with pytest.raises(CommandFailedError, match="No space left on device") as caught:
            run.run(job)
        assert "(disk-full)" in caught.value.hint
        done = steps(yard.tree / "build")
        (small / "taken").write_bytes(b"")
        _, made = compiled(job)
        assert "add.cpp" in made
        assert not set(made) & set(done)
    finally:
        subprocess.run(["umount", small], check=True)


SLOW = """\
#!/bin/sh
# a compiler that is at work long enough to be seen
c++ "$@" && sleep 1
"""


def crowded(folder: Path, text: str = CROWDED) -> str:
    path = folder / "crowded-c++"
    path.write_text(text.format(place=folder / "taken"), encoding="utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.mark.usefixtures("memory_is_short")
def test_after_a_compiler_was_killed_the_build_goes_on_with_half_as_many(
    yard: Yard, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = yard.job(jobs=4, jobs_exact=True, env={"CXX": crowded(tmp_path)})
    _, made = compiled(job)
    assert made == ["add.cpp", "core.cpp", "text.cpp"]
    said = capsys.readouterr().out
    assert ".cpp.o ran out of memory. Retrying with build.jobs: 2" in said
    assert ".cpp.o ran out of memory. Retrying with build.jobs: 1" in said
    (run,) = build_history_io.read_history(job.runs)
    assert run["jobs"] == 1
    assert run["killed"]


@pytest.mark.usefixtures("memory_is_short")
def test_a_compiler_that_is_killed_alone_is_given_up_with_its_cause(
    yard: Yard, tmp_path: Path
) -> None:
    alone = crowded(tmp_path, CROWDED.replace('mkdir "{place}" 2>/dev/null || ', ""))
    with pytest.raises(CommandFailedError, match="Killed") as caught:
        run.run(yard.job(jobs=2, env={"CXX": alone}))
    assert "needs more memory than is available (oom-killed)" in caught.value.hint


def test_ninja_takes_its_jobs_from_the_pool_and_what_they_needed_is_recorded(
    yard: Yard, tmp_path: Path
) -> None:
    job = yard.job(jobs="auto", env={"CXX": crowded(tmp_path, SLOW)})
    manifest = job.layout.compute_manifest_path("deps")
    ninja = manifests.read_manifest(manifest, DepsManifest).ninja
    if not jobserver_io.is_supported_ninja(ninja.version):
        pytest.skip("not run: this Ninja obeys no jobserver")
    compiled(job)
    (run,) = build_history_io.read_history(job.runs)
    assert run["jobs"] == capacity.count_usable_cores()
    objects = [item for item in run["objects"] if item["output"].endswith(".o")]
    assert len(objects) == 3
    assert any(item.get("peak_mib", 0) > 0 for item in objects)


TALKATIVE = """\
#!/bin/sh
# a compiler that says much, on both of its streams
case "$*" in *" -c "*/c10/* | *" -c "*/aten/*) ;; *) exec c++ "$@" ;; esac
for number in $(seq 100); do
  echo "x.cpp:$number:1: note: out $number of $$"
  echo "x.cpp:$number:1: warning: err $number of $$" >&2
done
exec c++ "$@"
"""


def test_the_log_has_every_line_in_order_and_nobody_else_gets_the_warnings(
    yard: Yard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = Heard()
    monkeypatch.setattr(output, "_active_listener", [heard])
    job = yard.job(jobs=2, env={"CXX": crowded(tmp_path, TALKATIVE)})
    compiled(job)
    assert f"the compilers printed 300 warnings: see {job.log}" in heard
    assert not [line for line in heard if "warning:" in line or "note:" in line]
    log = Path(job.log).read_text(encoding="utf-8").splitlines()
    compilers = {line.rpartition(" of ")[2] for line in log if ": warning: err" in line}
    assert len(compilers) == 3
    for one in compilers:
        told = [line.partition(": ")[2] for line in log if line.endswith(f" of {one}")]
        both = ((f"note: out {number}", f"warning: err {number}") for number in range(1, 101))
        assert told == [f"{line} of {one}" for pair in both for line in pair]
        first = log.index(f"x.cpp:1:1: note: out 1 of {one}")
        assert log[first : first + 200] == [line for line in log if line.endswith(f" of {one}")]
        assert "Building CXX object" in log[first - 1]  # Ninja names a step, then what it said
    steps = [int(line[1:].partition("/")[0]) for line in log if line.startswith("[")]
    assert steps[:4] == [1, 2, 3, 4]
    assert steps == sorted(steps)


def test_code_that_does_not_compile_shows_its_first_error(yard: Yard) -> None:
    change(yard.tree / "c10" / "core.cpp", "return 42;", "return nonsense;")
    with pytest.raises(CommandFailedError, match="nonsense") as caught:
        run.run(yard.job())
    assert "compile.log:" in caught.value.location


FLASH = """
include(cmake/EnvVarForwarding.cmake)
if(FLASH_ATTENTION_MAX_JOBS)
  set_property(GLOBAL APPEND PROPERTY JOB_POOLS flash=${FLASH_ATTENTION_MAX_JOBS})
  set_property(TARGET torch_cpu PROPERTY JOB_POOL_COMPILE flash)
endif()
"""
FORWARDING = """
foreach(name IN ITEMS
  USE_CUDA
  FLASH_ATTENTION_MAX_JOBS
)
  if(DEFINED ENV{${name}} AND NOT DEFINED ${name})
    set(${name} "$ENV{${name}}" CACHE STRING "" FORCE)
  endif()
endforeach()
"""


def flash_tree(folder: Path, venv: Path, backend: Backend = "setup_py") -> Yard:
    """A yard whose tree has a pool of its own for what stands for flash-attention."""
    yard = make_yard(folder, venv, backend)
    path = yard.tree / "cmake" / "EnvVarForwarding.cmake"
    path.write_text(FORWARDING, encoding="utf-8")
    with (yard.tree / "CMakeLists.txt").open("a", encoding="utf-8") as cmake:
        cmake.write(FLASH)
    return yard


def depth(job: CompileJob) -> int:
    """Of the pool, as Ninja reads it."""
    (rules,) = _cmake_folder(job).rglob("rules.ninja")
    found = re.search(r"pool flash\n  depth = (\d+)", rules.read_text(encoding="utf-8"))
    return int(found[1]) if found else 0


def decisions(job: CompileJob) -> list[str]:
    return [run["decision"] for run in build_history_io.read_history(job.runs)]


@pytest.mark.parametrize("backend", long_but(["setup_py"], BACKENDS))
def test_a_tree_with_a_pool_for_flash_attention_gets_its_depth_and_keeps_it(
    tmp_path: Path,
    venv: Path,
    backend: Backend,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    yard = flash_tree(tmp_path, venv, backend)
    job = yard.job(jobs="auto", flags={"USE_CUDA": True})
    monkeypatch.setattr(capacity, "count_processors", lambda: 16)
    monkeypatch.setattr(
        capacity, "find_memory_limit", lambda _: 80 * 1024
    )  # where Ninja obeys no pool
    first, _ = compiled(job)
    assert depth(job) == 16
    assert compiled(job) == (first, [])
    assert decisions(job) == ["configure", "reuse"]
    fixed = yard.job(jobs=1, flags={"USE_CUDA": True})
    assert compiled(fixed) == (first, [])
    assert depth(fixed) == 1
    assert compiled(fixed) == (first, [])
    assert decisions(job)[2:] == ["reconfigure", "reuse"]
    assert "does not know" not in capsys.readouterr().out


def test_a_folder_that_was_configured_without_that_depth_is_reconfigured_once(
    tmp_path: Path, venv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    yard = flash_tree(tmp_path, venv)
    job = yard.job(jobs=1, flags={"USE_CUDA": True})
    with monkeypatch.context() as before:
        before.setattr(build_context_io, "build_kernel_variables", lambda *_, **__: {})
        first, _ = compiled(job)
    assert depth(job) == 0
    for _ in range(2):
        assert compiled(job) == (first, [])
        assert depth(job) == 1
    assert decisions(job) == ["configure", "reconfigure", "reuse"]


def test_a_depth_that_a_person_wrote_is_taken(tmp_path: Path, venv: Path) -> None:
    yard = flash_tree(tmp_path, venv)
    own = {"FLASH_ATTENTION_MAX_JOBS": "3"}
    job = yard.job(jobs=1, flags={"USE_CUDA": True}, env=own)
    compiled(job)
    assert depth(job) == 3
