"""scikit-build-core, from 2.14: CMake in a folder of ours that is kept. Pure.

It has no step that only compiles: compiling makes a wheel that holds no library and is thrown away.
Which variables reach CMake, and when, is told in `forwarding`.
"""

from __future__ import annotations

from pathlib import PurePath

from tasks.stages.compile.forwarding import is_taken_again
from tasks.stages.compile.work import Step, Work, wheel_argv


def folder(work: Work) -> PurePath:
    """Our own folder."""
    return work.ours / "cmake"


def products(work: Work) -> tuple[PurePath, ...]:
    """The whole CMake folder; libraries lie where the tree's CMake puts them."""
    return (folder(work),)


def compile_steps(work: Work) -> tuple[Step, ...]:
    """A wheel that is thrown away: it installs no component, since packing the libraries takes
    minutes.
    """
    target = (f"build.targets={work.target}",) if work.target else ()
    config = (*_config(work), *target, "install.components=nothing")
    argv = wheel_argv(work, *config, dest=str(work.ours / "scratch"))
    return (Step("compile PyTorch", argv, _env(work)),)


def wheel_command(work: Work) -> Step:
    """The wheel, out of the same folder."""
    return Step("make the wheel", wheel_argv(work, *_config(work)), _env(work))


def ignores(name: str) -> bool:
    """All but what the environment overrides."""
    return not is_taken_again(name)


def _config(work: Work) -> tuple[str, ...]:
    return (f"build-dir={folder(work)}", f"cmake.build-type={work.type}")


def _env(work: Work) -> dict[str, str]:
    return {"MAX_JOBS": str(work.jobs), "CMAKE_BUILD_PARALLEL_LEVEL": str(work.jobs)}
