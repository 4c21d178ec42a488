"""The C++ libraries alone: CMake configures, builds and installs, without any Python packaging.
Pure.
"""

from __future__ import annotations

from pathlib import PurePath

from tasks.stages.compile.fingerprint import for_cmake
from tasks.stages.compile.job import DEST
from tasks.stages.compile.work import Step, Work, cmake_build


def folder(work: Work) -> PurePath:
    """Our own folder."""
    return work.ours / "cmake"


def products(work: Work) -> tuple[PurePath, ...]:
    """The whole CMake folder."""
    return (folder(work),)


def configure_step(work: Work) -> Step:
    """CMake, given everything as -D."""
    argv = (
        *(work.cmake, "-S", str(work.tree), "-B", str(folder(work)), "-G", "Ninja"),
        f"-DCMAKE_MAKE_PROGRAM={for_cmake(work.ninja)}",
        f"-DPYTHON_EXECUTABLE={for_cmake(work.python)}",
        *(f"-D{name}={value}" for name, value in sorted(_definitions(work).items())),
    )
    return Step("configure PyTorch", argv, {})


def compile_step(work: Work) -> Step:
    """Everything, or the one target."""
    return cmake_build(work, folder(work))


def wheel_command(work: Work) -> Step:
    """An install prefix, which find_package(Torch) accepts."""
    argv = (work.cmake, "--install", str(folder(work)), "--prefix", DEST)
    return Step("install the libraries", argv, {})


def _definitions(work: Work) -> dict[str, str]:
    fixed = {"CMAKE_BUILD_TYPE": work.type, "Python_EXECUTABLE": for_cmake(work.python)}
    given = {"BUILD_SHARED_LIBS": "ON", "BUILD_PYTHON": "OFF", **work.definitions, **fixed}
    given.pop("CMAKE_GENERATOR", None)  # it is given as -G
    return given
