"""What every build backend works with: the build, its commands, and how a wheel is made. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from tasks.stages.compile.job import DEST


@dataclass(frozen=True)
class Work:
    """A build: the tree, our build folder, tools by absolute path, and what is wanted.

    `definitions` are what CMake is given as -D, by entry. `jobs` compilers run at once; None where
    a pool says how many.
    """

    tree: PurePath
    ours: PurePath
    python: str
    cmake: str
    ninja: str
    type: str
    definitions: Mapping[str, str]
    target: str | None
    jobs: int | None


@dataclass(frozen=True)
class Step:
    """One command of a build, run in the tree, with what it needs on top of the environment."""

    what: str
    argv: tuple[str, ...]
    env: Mapping[str, str]


def cmake_build(work: Work, folder: PurePath, everything: str = "all") -> Step:
    """CMake's own build of a configured folder: the target that stands for everything, or the one
    that is wanted.
    """
    argv = (work.cmake, "--build", str(folder), "--target", work.target or everything)
    what = f"compile {work.target or 'PyTorch'}"
    return Step(what, argv, parallel(work, "CMAKE_BUILD_PARALLEL_LEVEL"))


def parallel(work: Work, *names: str) -> dict[str, str]:
    """The variables that say how many compilers run at once; none where a pool does."""
    return dict.fromkeys(names, str(work.jobs)) if work.jobs else {}


def cmake_again(work: Work, folder: PurePath, arguments: tuple[str, ...]) -> Step:
    """CMake in a configured folder, told what to forget and what to take."""
    return Step("reconfigure PyTorch", (work.cmake, *arguments, str(folder)), {})


def wheel_argv(work: Work, *config: str, dest: str = DEST) -> tuple[str, ...]:
    """The command that makes a wheel by the tree's own backend, with `config` settings for it.

    `build` runs the backend in the tree itself, and so in the folder that is compiled already; pip
    need not be in the environment. Its dependency check is left out: CMake and Ninja may be the
    system's.
    """
    options = ("--wheel", "--no-isolation", "--skip-dependency-check", "--outdir", dest)
    return (work.python, "-m", "build", *options, *(f"-C{entry}" for entry in config), ".")
