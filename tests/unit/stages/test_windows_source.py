"""Commands and environments of each stage of the profile rtx5090-source on Windows.

What it shares with windows-rtx5090 is in test_windows_prebuilt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PureWindowsPath

import pytest

from tasks.core.errors import SettingsError
from tasks.core.model import Command
from tasks.knowledge.resource_estimates import MAX_BUILD_SUBPATH, MAX_PATH
from tasks.settings.schema import Build, Source
from tasks.stages.compile.build_backends import (
    BACKENDS,
    BuildSpec,
    create_reconfigure_step,
)
from tasks.stages.compile.build_context_io import create_build_spec
from tasks.stages.compile.build_folder_decision import (
    ConfigureFingerprint,
    FolderChange,
    FolderDecision,
    build_cmake_definitions,
    build_reconfigure_arguments,
    find_folder_rule,
)
from tasks.stages.compile.model import BackendName, CompileResult
from tasks.stages.env.cache_launchers import build_cache_environment
from tasks.stages.env.environment_variables import resolve_environments
from tasks.stages.validate.torch_checks_io import list_cpp_steps
from tasks.stages.wheel.model import Wheel
from tasks.system import shell
from tasks.system.git import clones
from tests.support.checkout import KNOWLEDGE, RELEASE
from tests.support.surroundings import TOOLSET
from tests.support.windowshost import COMPILERS, KITS, MSVC, SCCACHE, deps, stages

NAME = "rtx5090-source"
STAGES = stages(NAME)
DEPS = deps(NAME, "13.0.88")
BUILD = "C:\\ty\\build\\rtx5090-source"
VENV = f"{BUILD}\\venv"
SCRIPTS = f"{VENV}\\Scripts"
CUDA = f"{VENV}\\Lib\\site-packages\\nvidia\\cu13"
TREE = f"{BUILD}\\src\\pytorch"
OURS = f"{BUILD}\\compile"
LAUNCHER = "C:/Users/me/scoop/shims/sccache.exe"
PREFIX = "C:/ty/build/rtx5090-source/libtorch"
MAKE_WHEEL = (
    *(DEPS.python, "-m", "build", "--wheel", "--no-isolation", "--skip-dependency-check"),
    *("--outdir",),
)


def work() -> BuildSpec:
    """Return the build spec with a job count."""
    return replace(create_build_spec(STAGES["compile"].job, DEPS, PureWindowsPath(TREE)), jobs=8)


def test_stages_are_those_of_source_build() -> None:
    names = ["extensions:diff-gaussian-rasterization", "extensions:simple-knn"]
    expected = ["deps", "source", "env", "compile", "wheel", *names, "validate"]
    assert list(STAGES) == expected


def test_deps_installs_torch_build_requirements() -> None:
    job = STAGES["deps"].job
    assert job.tools == (
        *("ninja>=1.13.1", "pip", "wheel", "build", "numpy"),
        *("setuptools>=77.0.3", "cmake>=3.27"),
    )
    assert job.cache_package == "sccache>=0.14"
    assert job.limits.msvc == (1920, 1950)  # Visual Studio 2026 needs CUDA 13.2
    assert job.git_needed == "to read PyTorch's source tree"


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Command]:
    """Record commands without running them; git reports an empty repository."""
    commands: list[Command] = []

    def run(command: Command, on_line: Callable[[str], None] | None = None) -> None:
        commands.append(command)
        if "init" in command.argv:
            (tmp_path / "pytorch" / ".git").mkdir(parents=True)

    def capture(command: Command) -> str:
        return "0123abcd\n" if "FETCH_HEAD^{commit}" in command.argv else ""

    monkeypatch.setattr(shell, "run_command", run)
    monkeypatch.setattr(shell, "capture_output", capture)
    return commands


def test_source_is_shallow_clone_of_tag(recorded: list[Command], tmp_path: Path) -> None:
    job = STAGES["source"].job
    assert (str(job.tree), job.ref) == (TREE, f"v{RELEASE}")
    clones.clone_at_ref(job.location, job.ref, tmp_path / "pytorch", job.submodules, log=job.log)
    options = (
        *("-c", "protocol.ext.allow=never", "-c", "advice.detachedHead=false"),
        *("-c", "core.longpaths=true"),
        *("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60"),
    )
    assert {command.argv[: 1 + len(options)] for command in recorded} == {("git", *options)}
    asked = f"https://github.com/pytorch/pytorch.git v{RELEASE} submodules=True"
    assert [command.argv[1 + len(options) :] for command in recorded] == [
        ("init", "--quiet"),
        ("config", "remote.origin.url", "https://github.com/pytorch/pytorch.git"),
        ("config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"),
        (
            *("fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--depth", "1"),
            *("--", "origin", f"v{RELEASE}"),
        ),
        ("config", "torchyard.checkout", ""),
        ("config", "torchyard.pending", "0123abcd"),
        ("checkout", "--quiet", "--detach", "--force", "0123abcd", "--"),
        ("config", "torchyard.pending", ""),
        ("config", "torchyard.checkout", asked),
    ]


def test_user_tree_has_windows_path() -> None:
    job = stages(NAME, source=Source(path="D:/src/pytorch"))["source"].job
    assert (job.kind, str(job.tree)) == ("path", "D:\\src\\pytorch")


def test_source_build_environment_on_windows_is_exact() -> None:
    full, extension = resolve_environments(STAGES["env"].job, DEPS, SCCACHE, TREE)
    shared = {
        "PYTHONNOUSERSITE": "1",
        "VIRTUAL_ENV": VENV,
        **COMPILERS,
        "CUDA_HOME": CUDA,
        "CUDA_PATH": CUDA,
        "CUDACXX": CUDA.replace("\\", "/") + "/bin/nvcc.exe",
    }
    assert full.set == {
        **shared,
        # no launcher for nvcc, which races behind a cache on Windows
        "CMAKE_C_COMPILER_LAUNCHER": LAUNCHER,
        "CMAKE_CXX_COMPILER_LAUNCHER": LAUNCHER,
        "USE_CUDA": "1",
        "TORCH_CUDA_ARCH_LIST": "12.0",
        "BUILD_TEST": "0",
        "CMAKE_GENERATOR": "Ninja",
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_LINK_DEPENDS_NO_SHARED": "ON",
    }
    assert full.defaults == {
        "SCCACHE_CACHE_SIZE": "20G",
        "SCCACHE_IDLE_TIMEOUT": "3600",
        "SCCACHE_IGNORE_SERVER_IO_ERROR": "1",
        "SCCACHE_BASEDIRS": BUILD,
    }
    assert full.prepend == {
        "PATH": (
            SCRIPTS,
            f"{CUDA}\\bin",
            f"{CUDA}\\bin\\x86_64",
            f"{TOOLSET}\\bin\\HostX64\\x64",
            f"{KITS}bin\\10.0.26100.0\\x64",
        )
    }
    # CUDA 13.0 accepts the old preprocessor; headers of torch 2.15 need USE_CUDA
    assert extension.set == {
        **shared,
        "TORCH_CUDA_ARCH_LIST": "12.0",
        "CUDAARCHS": "120-real",
        "CL": "/DUSE_CUDA",
        "NVCC_APPEND_FLAGS": "-DUSE_CUDA",
    }


@pytest.mark.parametrize("kind", ["RelWithDebInfo", "Debug"])
def test_debug_information_is_embedded_with_cache(kind: str) -> None:
    job = stages(NAME, build=Build(type=kind))["env"].job  # type: ignore[arg-type]
    assert (
        resolve_environments(job, DEPS, SCCACHE)[0].set["CMAKE_MSVC_DEBUG_INFORMATION_FORMAT"]
        == "Embedded"
    )
    assert "CMAKE_MSVC_DEBUG_INFORMATION_FORMAT" not in resolve_environments(job, DEPS)[0].set


def test_cuda_13_2_enables_new_preprocessor_for_torch() -> None:
    full, _ = resolve_environments(STAGES["env"].job, deps(NAME, "13.2.86"))
    assert full.set["CL"] == "/Zc:preprocessor"
    assert full.set["NVCC_APPEND_FLAGS"] == "-Xcompiler /Zc:preprocessor"


def test_mkl_prefix_has_forward_slashes() -> None:
    job = stages(NAME, build=Build(blas="mkl"))["env"].job
    assert (
        resolve_environments(job, DEPS)[0].set["CMAKE_PREFIX_PATH"]
        == "C:/ty/build/rtx5090-source/venv"
    )


def test_extension_compilers_are_not_cached_on_windows() -> None:
    assert build_cache_environment(STAGES["env"].job, DEPS, SCCACHE).set == {
        "TORCH_NO_COMPILER_WRAPPER": "1"
    }


STEPS: dict[BackendName, tuple[Command, Command, Command]] = {
    # trees from 2.14 on, like this profile's
    "scikit_build_core": (
        Command(
            (
                *(*MAKE_WHEEL, f"{OURS}\\scratch", f"-Cbuild-dir={OURS}\\cmake"),
                *("-Ccmake.build-type=Release", "-Cbuild.targets=help"),
                *("-Cinstall.components=nothing", "."),
            ),
            {"MAX_JOBS": "8", "CMAKE_BUILD_PARALLEL_LEVEL": "8"},
            "configure PyTorch",
        ),
        Command(
            (f"{SCRIPTS}\\cmake.exe", "--build", f"{OURS}\\cmake", "--target", "all"),
            {"CMAKE_BUILD_PARALLEL_LEVEL": "8"},
            "compile PyTorch",
        ),
        Command(
            (
                *(*MAKE_WHEEL, "{dest}", f"-Cbuild-dir={OURS}\\cmake"),
                *("-Ccmake.build-type=Release", "."),
            ),
            {"MAX_JOBS": "8", "CMAKE_BUILD_PARALLEL_LEVEL": "8"},
            "make the wheel",
        ),
    ),
    # trees up to 2.13
    "setup_py": (
        Command(
            (DEPS.python, "setup.py", "build", "--cmake-only"),
            {"CMAKE_BUILD_TYPE": "Release", "MAX_JOBS": "8"},
            "configure PyTorch",
        ),
        Command(
            (f"{SCRIPTS}\\cmake.exe", "--build", f"{TREE}\\build", "--target", "install"),
            {"CMAKE_BUILD_PARALLEL_LEVEL": "8"},
            "compile PyTorch",
        ),
        Command(
            (
                *(*MAKE_WHEEL, "{dest}", "-C--build-option=--compression=stored"),
                *("-C--build-option=--bdist-dir=build/bdist.torchyard/wheel", "."),
            ),
            {"CMAKE_BUILD_TYPE": "Release", "MAX_JOBS": "8"},
            "make the wheel",
        ),
    ),
    # build.backend: cmake
    "cmake": (
        Command(
            (
                *(f"{SCRIPTS}\\cmake.exe", "-S", TREE, "-B", f"{OURS}\\cmake", "-G", "Ninja"),
                "-DCMAKE_MAKE_PROGRAM=C:/ty/build/rtx5090-source/venv/Scripts/ninja.exe",
                "-DPYTHON_EXECUTABLE=C:/ty/build/rtx5090-source/venv/Scripts/python.exe",
                "-DBUILD_PYTHON=OFF",
                "-DBUILD_SHARED_LIBS=ON",
                "-DCMAKE_BUILD_TYPE=Release",
                "-DPython_EXECUTABLE=C:/ty/build/rtx5090-source/venv/Scripts/python.exe",
            ),
            {},
            "configure PyTorch",
        ),
        Command(
            (f"{SCRIPTS}\\cmake.exe", "--build", f"{OURS}\\cmake", "--target", "all"),
            {"CMAKE_BUILD_PARALLEL_LEVEL": "8"},
            "compile PyTorch",
        ),
        Command(
            (f"{SCRIPTS}\\cmake.exe", "--install", f"{OURS}\\cmake", "--prefix", "{dest}"),
            {},
            "install the libraries",
        ),
    ),
}


@pytest.mark.parametrize("name", BACKENDS)
def test_compile_and_wheel_commands_are_exact(name: BackendName) -> None:
    backend = BACKENDS[name]
    made = (backend.create_configure_step(work()), backend.create_compile_step(work()))
    assert (*made, backend.create_wheel_step(work())) == STEPS[name]


def test_wheel_is_written_to_landing_folder() -> None:
    argv = STEPS["scikit_build_core"][2].argv
    compiled = CompileResult("scikit_build_core", TREE, f"{OURS}\\cmake", None, "", argv, {})
    assert compiled.build_wheel_command(STAGES["wheel"].job.landing)[7] == f"{BUILD}\\landing"
    assert STAGES["wheel"].job.local == "cu130.sm120"


def test_reconfigure_arguments_have_forward_slashes() -> None:
    wanted = ConfigureFingerprint(
        {"USE_NCCL": "0", "CMAKE_PREFIX_PATH": "C:\\a\\b;D:\\c", "CMAKE_CXX_FLAGS": r'/DA="\b"'},
        {"toolchain.ninja": f"{SCRIPTS}\\ninja.exe", "toolchain.python": DEPS.python},
    )
    change = FolderChange("toolchain.ninja", "C:\\gone\\ninja.exe", "", "reconfigure")
    given = build_reconfigure_arguments(
        KNOWLEDGE.folder_rules, FolderDecision("reconfigure", (change,)), wanted
    )
    assert create_reconfigure_step(work(), PureWindowsPath(OURS, "cmake"), given).argv == (
        *(f"{SCRIPTS}\\cmake.exe", "-UCMAKE_MAKE_PROGRAM", r'-DCMAKE_CXX_FLAGS=/DA="\b"'),
        "-DCMAKE_MAKE_PROGRAM=C:/ty/build/rtx5090-source/venv/Scripts/ninja.exe",
        "-DPython_EXECUTABLE=C:/ty/build/rtx5090-source/venv/Scripts/python.exe",
        "-DUSE_NCCL=0",
        f"{OURS}\\cmake",
    )
    first = build_cmake_definitions(KNOWLEDGE.folder_rules, wanted)
    assert first["CMAKE_PREFIX_PATH"] == "C:/a/b;D:/c"


def test_validate_builds_cpp_program_with_libtorch() -> None:
    job = STAGES["validate"].job
    wheel = Wheel(
        "2.15.0", "2.15.0", "13.0", "", DEPS.python, "libtorch", prefix=f"{BUILD}\\libtorch"
    )
    build = f"{BUILD}\\validate\\libtorch"
    assert [argv for _, argv in list_cpp_steps(job, DEPS, wheel, PureWindowsPath(build))] == [
        (
            *(f"{SCRIPTS}\\cmake.exe", "-S", "C:\\ty\\templates\\libtorch", "-B", build),
            *("-G", "Ninja"),
            "-DCMAKE_MAKE_PROGRAM=C:/ty/build/rtx5090-source/venv/Scripts/ninja.exe",
            "-DCMAKE_BUILD_TYPE=Release",
            f"-DCMAKE_PREFIX_PATH={PREFIX}",
            "-DTORCHYARD_CXX_STANDARD=20",
        ),
        (f"{SCRIPTS}\\cmake.exe", "--build", build),
        (f"{build}\\check.exe",),
    ]


def test_changed_windows_sdk_wipes_build_folder() -> None:
    names = (*map(str.upper, MSVC.set), "DISTUTILS_USE_SDK", "MSSDK", "VSLANG", "CC", "CXX")
    effects = {name: find_folder_rule(KNOWLEDGE.folder_rules, name).effect for name in names}
    assert {name for name in names if effects[name] == "wipe"} == {
        *("INCLUDE", "LIB", "WINDOWSSDKVERSION"),
    }
    assert set(effects.values()) == {"wipe", "reuse"}


def test_short_checkout_path_fits_windows_path_limit() -> None:
    assert MAX_PATH - len(BUILD) > MAX_BUILD_SUBPATH


def test_distcc_is_refused_on_windows() -> None:
    build = Build(distribute="distcc", hosts=("10.0.0.5/8",))
    with pytest.raises(SettingsError, match="cannot distribute compilations from Windows"):
        stages(NAME, build=build)
