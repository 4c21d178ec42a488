"""scikit-build-core, from 2.14: CMake in a folder of ours that is kept. Pure.

It has no step that only compiles, so a wheel is made each time. Which variables reach CMake is told
by PyTorch's cmake/EnvVarForwarding.cmake (commit 002e962d8b17).
"""

from __future__ import annotations

from pathlib import PurePath

from tasks.stages.compile.work import Step, Work, wheel_argv


def folder(work: Work) -> PurePath:
    """Our own folder."""
    return work.ours / "cmake"


def products(work: Work) -> tuple[PurePath, ...]:
    """The whole CMake folder; libraries lie where the tree's CMake puts them."""
    return (folder(work),)


def compile_steps(work: Work) -> tuple[Step, ...]:
    """A wheel that is thrown away; with a target, one that installs no component."""
    config = list(_config(work))
    if work.target:
        config += [f"build.targets={work.target}", "install.components=nothing"]
    argv = wheel_argv(work, *config, dest=str(work.ours / "scratch"))
    return (Step("compile PyTorch", argv, _env(work)),)


def wheel_command(work: Work) -> Step:
    """The wheel, out of the same folder."""
    return Step("make the wheel", wheel_argv(work, *_config(work)), _env(work))


def ignores(name: str) -> bool:
    """All but the prefixes that override the cache (`_envfwd_apply`)."""
    return not name.startswith(("USE_", "BUILD_", "CMAKE_"))


def _config(work: Work) -> tuple[str, ...]:
    return (f"build-dir={folder(work)}", f"cmake.build-type={work.type}")


def _env(work: Work) -> dict[str, str]:
    return {"MAX_JOBS": str(work.jobs), "CMAKE_BUILD_PARALLEL_LEVEL": str(work.jobs)}
