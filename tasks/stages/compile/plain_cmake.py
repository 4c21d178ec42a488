"""The C++ libraries alone: CMake configures, builds and installs, without any Python packaging."""

from __future__ import annotations

from pathlib import PurePath

from tasks.stages.compile.build_commands import BuildSpec, BuildStep, create_cmake_build
from tasks.stages.compile.configure_fingerprint import format_cmake_paths
from tasks.stages.compile.model import DESTINATION


def find_build_folder(work: BuildSpec) -> PurePath:
    """Our own folder."""
    return work.build_root / "cmake"


def list_output_folders(work: BuildSpec) -> tuple[PurePath, ...]:
    """The whole CMake folder."""
    return (find_build_folder(work),)


def create_configure_step(work: BuildSpec) -> BuildStep:
    """CMake, given everything as -D."""
    argv = (
        *(work.cmake, "-S", str(work.tree), "-B", str(find_build_folder(work)), "-G", "Ninja"),
        f"-DCMAKE_MAKE_PROGRAM={format_cmake_paths(work.ninja)}",
        f"-DPYTHON_EXECUTABLE={format_cmake_paths(work.python)}",
        *(f"-D{name}={value}" for name, value in sorted(_complete_definitions(work).items())),
    )
    return BuildStep("configure PyTorch", argv, {})


def create_compile_step(work: BuildSpec) -> BuildStep:
    """Everything, or the one target."""
    return create_cmake_build(work, find_build_folder(work))


def create_wheel_step(work: BuildSpec) -> BuildStep:
    """An install prefix, which find_package(Torch) accepts."""
    argv = (work.cmake, "--install", str(find_build_folder(work)), "--prefix", DESTINATION)
    return BuildStep("install the libraries", argv, {})


def _complete_definitions(work: BuildSpec) -> dict[str, str]:
    fixed = {"CMAKE_BUILD_TYPE": work.type, "Python_EXECUTABLE": format_cmake_paths(work.python)}
    given = {"BUILD_SHARED_LIBS": "ON", "BUILD_PYTHON": "OFF", **work.definitions, **fixed}
    given.pop("CMAKE_GENERATOR", None)  # it is given as -G
    return given
