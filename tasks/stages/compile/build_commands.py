"""What every build backend works with: the build, its commands, and how a wheel is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from tasks.stages.compile.model import DESTINATION


@dataclass(frozen=True)
class BuildSpec:
    """A build: the tree, our build folder, tools by absolute path, and what is wanted.

    `definitions` are what CMake is given as -D, by entry. `jobs` compilers run at once; None where
    a pool says how many.
    """

    tree: PurePath
    build_root: PurePath
    python: str
    cmake: str
    ninja: str
    type: str
    definitions: Mapping[str, str]
    target: str | None
    jobs: int | None


@dataclass(frozen=True)
class BuildStep:
    """One command of a build, run in the tree, with what it needs on top of the environment."""

    description: str
    argv: tuple[str, ...]
    env: Mapping[str, str]


def create_cmake_build(work: BuildSpec, folder: PurePath, everything: str = "all") -> BuildStep:
    """CMake's own build of a configured folder: the target that stands for everything, or the one
    that is wanted.
    """
    argv = (work.cmake, "--build", str(folder), "--target", work.target or everything)
    what = f"compile {work.target or 'PyTorch'}"
    return BuildStep(what, argv, build_job_variables(work, "CMAKE_BUILD_PARALLEL_LEVEL"))


def build_job_variables(work: BuildSpec, *names: str) -> dict[str, str]:
    """The variables that say how many compilers run at once; none where a pool does."""
    return dict.fromkeys(names, str(work.jobs)) if work.jobs else {}


def create_reconfigure_step(
    work: BuildSpec, folder: PurePath, arguments: tuple[str, ...]
) -> BuildStep:
    """CMake in a configured folder, told what to forget and what to take."""
    return BuildStep("reconfigure PyTorch", (work.cmake, *arguments, str(folder)), {})


def build_wheel_argv(work: BuildSpec, *config: str, dest: str = DESTINATION) -> tuple[str, ...]:
    """The command that makes a wheel by the tree's own backend, with `config` settings for it.

    `build` runs the backend in the tree itself, and so in the folder that is compiled already; pip
    need not be in the environment. Its dependency check is left out: CMake and Ninja may be the
    system's.
    """
    options = ("--wheel", "--no-isolation", "--skip-dependency-check", "--outdir", dest)
    return (work.python, "-m", "build", *options, *(f"-C{entry}" for entry in config), ".")
