"""setup.py with setuptools, up to 2.13: CMake in ./build of the tree, installed into ./torch. Pure.

The rules are those of PyTorch's tools/setup_helpers/cmake.py.
"""

from __future__ import annotations

from pathlib import PurePath

from tasks.stages.compile.work import Step, Work, cmake_build, wheel_argv


def folder(work: Work) -> PurePath:
    """./build of the tree; setup.py takes no other."""
    return work.tree / "build"


def products(work: Work) -> tuple[PurePath, ...]:
    """CMake's own output folder, and what was installed into the package."""
    return (work.tree / "build" / "lib", work.tree / "torch" / "lib")


def compile_steps(work: Work) -> tuple[Step, ...]:
    """All of it by setup.py; one target by CMake, after setup.py has configured."""
    build = (work.python, "setup.py", "build")
    if not work.target:
        return (Step("compile PyTorch", build, _env(work)),)
    configure = Step("configure PyTorch", (*build, "--cmake-only"), _env(work))
    return (configure, cmake_build(work, folder(work)))


def wheel_command(work: Work) -> Step:
    """bdist_wheel by way of `build`, which works in the same ./build."""
    return Step("make the wheel", wheel_argv(work), _env(work))


def ignores(name: str) -> bool:
    """Everything: with CMakeCache.txt there, setup.py does not run CMake again (pytorch#23512)."""
    return bool(name)


def _env(work: Work) -> dict[str, str]:
    return {"CMAKE_BUILD_TYPE": work.type, "MAX_JOBS": str(work.jobs)}
