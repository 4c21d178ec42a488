"""setup.py with setuptools, up to 2.13: CMake in ./build of the tree, installed into ./torch. Pure.

The rules are those of PyTorch's tools/setup_helpers/cmake.py.
"""

from __future__ import annotations

from pathlib import PurePath

from tasks.stages.compile.job import ASSEMBLY, OPTION
from tasks.stages.compile.work import Step, Work, cmake_build, parallel, wheel_argv

# A wheel that is not compressed, put together where the wheel stage has laid out what is built
# already. setuptools before 64 hands no options on: the wheel is then an ordinary one.
_QUICK = (
    f"{OPTION}=--compression=stored",
    f"{OPTION}=--bdist-dir=build/{ASSEMBLY}/wheel",
)


def folder(work: Work) -> PurePath:
    """./build of the tree; setup.py takes no other."""
    return work.tree / "build"


def products(work: Work) -> tuple[PurePath, ...]:
    """CMake's own output folder, and what was installed into the package."""
    return (work.tree / "build" / "lib", work.tree / "torch" / "lib")


def configure_step(work: Work) -> Step:
    """setup.py itself: it tells CMake what it found of Python and NumPy."""
    return Step("configure PyTorch", (work.python, "setup.py", "build", "--cmake-only"), _env(work))


def compile_step(work: Work) -> Step:
    """What setup.py would run: CMake's target install."""
    return cmake_build(work, folder(work), everything="install")


def wheel_command(work: Work) -> Step:
    """bdist_wheel by way of `build`, which works in the same ./build."""
    return Step("make the wheel", wheel_argv(work, *_QUICK), _env(work))


def _env(work: Work) -> dict[str, str]:
    return {"CMAKE_BUILD_TYPE": work.type, **parallel(work, "MAX_JOBS")}
