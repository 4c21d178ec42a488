"""setup.py with setuptools, up to 2.13: CMake in ./build of the tree, installed into ./torch.

The rules are those of PyTorch's tools/setup_helpers/cmake.py.
"""

from __future__ import annotations

from pathlib import PurePath

from tasks.stages.compile.build_commands import (
    BuildSpec,
    BuildStep,
    build_job_variables,
    build_wheel_argv,
    create_cmake_build,
)
from tasks.stages.compile.model import ASSEMBLY_FOLDER, BUILD_OPTION

# A wheel that is not compressed, put together where the wheel stage has laid out what is built
# already. setuptools before 64 hands no options on: the wheel is then an ordinary one.
_QUICK_OPTIONS = (
    f"{BUILD_OPTION}=--compression=stored",
    f"{BUILD_OPTION}=--bdist-dir=build/{ASSEMBLY_FOLDER}/wheel",
)


def find_build_folder(work: BuildSpec) -> PurePath:
    """./build of the tree; setup.py takes no other."""
    return work.tree / "build"


def list_output_folders(work: BuildSpec) -> tuple[PurePath, ...]:
    """CMake's own output folder, and what was installed into the package."""
    return (work.tree / "build" / "lib", work.tree / "torch" / "lib")


def create_configure_step(work: BuildSpec) -> BuildStep:
    """setup.py itself: it tells CMake what it found of Python and NumPy."""
    return BuildStep(
        "configure PyTorch",
        (work.python, "setup.py", "build", "--cmake-only"),
        _build_setup_variables(work),
    )


def create_compile_step(work: BuildSpec) -> BuildStep:
    """What setup.py would run: CMake's target install."""
    return create_cmake_build(work, find_build_folder(work), everything="install")


def create_wheel_step(work: BuildSpec) -> BuildStep:
    """bdist_wheel by way of `build`, which works in the same ./build."""
    return BuildStep(
        "make the wheel", build_wheel_argv(work, *_QUICK_OPTIONS), _build_setup_variables(work)
    )


def _build_setup_variables(work: BuildSpec) -> dict[str, str]:
    return {"CMAKE_BUILD_TYPE": work.type, **build_job_variables(work, "MAX_JOBS")}
