"""scikit-build-core, from 2.14: CMake in a folder of ours that is kept.

It has no step that only configures: that makes a wheel which holds no library and is thrown away.
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


def find_build_folder(work: BuildSpec) -> PurePath:
    """Our own folder."""
    return work.build_root / "cmake"


def list_output_folders(work: BuildSpec) -> tuple[PurePath, ...]:
    """The whole CMake folder; libraries lie where the tree's CMake puts them."""
    return (find_build_folder(work),)


def create_configure_step(work: BuildSpec) -> BuildStep:
    """A wheel that is thrown away, of the target that only lists targets."""
    config = (*_build_config_settings(work), "build.targets=help", "install.components=nothing")
    argv = build_wheel_argv(work, *config, dest=str(work.build_root / "scratch"))
    return BuildStep("configure PyTorch", argv, _build_scikit_variables(work))


def create_compile_step(work: BuildSpec) -> BuildStep:
    """CMake's own build: the backend's would install and pack what was compiled."""
    return create_cmake_build(work, find_build_folder(work))


def create_wheel_step(work: BuildSpec) -> BuildStep:
    """The wheel, out of the same folder."""
    return BuildStep(
        "make the wheel",
        build_wheel_argv(work, *_build_config_settings(work)),
        _build_scikit_variables(work),
    )


def _build_config_settings(work: BuildSpec) -> tuple[str, ...]:
    return (f"build-dir={find_build_folder(work)}", f"cmake.build-type={work.type}")


def _build_scikit_variables(work: BuildSpec) -> dict[str, str]:
    return build_job_variables(work, "MAX_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL")
