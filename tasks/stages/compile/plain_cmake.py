"""The C++ libraries alone: CMake configures, builds and installs, without any Python packaging.
Pure.
"""

from __future__ import annotations

from pathlib import PurePath

from tasks.stages.compile.forwarding import ALIASES, is_forwarded
from tasks.stages.compile.job import DEST
from tasks.stages.compile.work import Step, Work, cmake_build


def folder(work: Work) -> PurePath:
    """Our own folder."""
    return work.ours / "cmake"


def products(work: Work) -> tuple[PurePath, ...]:
    """The whole CMake folder."""
    return (folder(work),)


def compile_steps(work: Work) -> tuple[Step, ...]:
    """Configure every time, which CMake makes short when nothing changed; then build."""
    argv = (
        *(work.cmake, "-S", str(work.tree), "-B", str(folder(work)), "-G", "Ninja"),
        f"-DCMAKE_MAKE_PROGRAM={work.ninja}",
        *(f"-DPYTHON_EXECUTABLE={work.python}", f"-DPython_EXECUTABLE={work.python}"),
        *(f"-D{name}={value}" for name, value in sorted(_variables(work).items())),
    )
    return (Step("configure PyTorch", argv, {}), cmake_build(work, folder(work)))


def wheel_command(work: Work) -> Step:
    """An install prefix, which find_package(Torch) accepts."""
    argv = (work.cmake, "--install", str(folder(work)), "--prefix", DEST)
    return Step("install the libraries", argv, {})


def ignores(name: str) -> bool:
    """All but what is given on the command line as -D, under the name that counts."""
    return name in ALIASES or not is_forwarded(name)


def _variables(work: Work) -> dict[str, str]:
    given = {name: value for name, value in work.variables.items() if is_forwarded(name)}
    fixed = {"BUILD_PYTHON": "OFF", "CMAKE_BUILD_TYPE": work.type}
    given.pop("CMAKE_GENERATOR", None)  # it is given as -G
    return {"BUILD_SHARED_LIBS": "ON", **given, **fixed}
