"""scikit-build-core, from 2.14: CMake in a folder of ours that is kept. Pure.

It has no step that only configures: that makes a wheel which holds no library and is thrown away.
"""

from __future__ import annotations

from pathlib import PurePath

from tasks.stages.compile.work import Step, Work, cmake_build, parallel, wheel_argv


def folder(work: Work) -> PurePath:
    """Our own folder."""
    return work.ours / "cmake"


def products(work: Work) -> tuple[PurePath, ...]:
    """The whole CMake folder; libraries lie where the tree's CMake puts them."""
    return (folder(work),)


def configure_step(work: Work) -> Step:
    """A wheel that is thrown away, of the target that only lists targets."""
    config = (*_config(work), "build.targets=help", "install.components=nothing")
    argv = wheel_argv(work, *config, dest=str(work.ours / "scratch"))
    return Step("configure PyTorch", argv, _env(work))


def compile_step(work: Work) -> Step:
    """CMake's own build: the backend's would install and pack what was compiled."""
    return cmake_build(work, folder(work))


def wheel_command(work: Work) -> Step:
    """The wheel, out of the same folder."""
    return Step("make the wheel", wheel_argv(work, *_config(work)), _env(work))


def _config(work: Work) -> tuple[str, ...]:
    return (f"build-dir={folder(work)}", f"cmake.build-type={work.type}")


def _env(work: Work) -> dict[str, str]:
    return parallel(work, "MAX_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL")
