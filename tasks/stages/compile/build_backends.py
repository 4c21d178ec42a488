"""The build backends of PyTorch's trees, and which one a tree has.

Each is a module of the same shape: which command configures a new build folder, which one compiles
in it, and which one makes the wheel out of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Protocol

from tasks.stages.compile import plain_cmake, scikit_build, setup_py
from tasks.stages.compile.build_commands import BuildSpec, BuildStep
from tasks.stages.compile.model import BackendName

_SCIKIT_BUILD_CORE = "scikit_build_core.build"


class Backend(Protocol):
    """What the action needs to know of a build backend."""

    def find_build_folder(self, work: BuildSpec) -> PurePath:
        """Where CMake works."""

    def list_output_folders(self, work: BuildSpec) -> tuple[PurePath, ...]:
        """Folders that hold what came out; they may be missing."""

    def create_configure_step(self, work: BuildSpec) -> BuildStep:
        """The command that configures an empty folder and compiles nothing."""

    def create_compile_step(self, work: BuildSpec) -> BuildStep:
        """The command that compiles in a configured folder what Ninja finds to be old."""

    def create_wheel_step(self, work: BuildSpec) -> BuildStep:
        """The command that makes a wheel, or an install prefix, in `DEST` of what was compiled."""


BACKENDS: Mapping[BackendName, Backend] = {
    "setup_py": setup_py,
    "scikit_build_core": scikit_build,
    "cmake": plain_cmake,
}


def detect_backend(pyproject: str) -> BackendName:
    """The backend of a tree by the text of its pyproject.toml, "" where it has none."""
    return "scikit_build_core" if _SCIKIT_BUILD_CORE in pyproject else "setup_py"
