"""A C++ program through find_package(Torch): what shows that a build without Python works."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from tasks.core.deps_model import Deps
from tasks.core.errors import CommandFailedError
from tasks.core.model import Check, Command
from tasks.knowledge.versions import numbers
from tasks.stages.validate.job import ValidateJob
from tasks.stages.wheel.job import Wheel
from tasks.system import files, shell

NAME = "find_package(Torch)"


def program_check(job: ValidateJob, deps: Deps, wheel: Wheel, env: Mapping[str, str]) -> Check:
    """Configure, compile and run it, in a folder that is empty each time."""
    files.remove_owned(job.work)
    build = files.own(job.work) / "libtorch"
    lines: list[str] = []
    try:
        for what, argv in steps(job, deps, wheel, build):
            command = Command(
                argv, _with_libraries(job, wheel, env), what, log=job.log, timeout=job.timeout
            )
            shell.run(command, lines.append)
    except CommandFailedError as error:
        return Check(NAME, "failed", error.what, f"see {error.where}")
    return Check(NAME, "passed", lines[-1] if lines else "exit 0")


def steps(
    job: ValidateJob, deps: Deps, wheel: Wheel, build: PurePath
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """What is run, one after the other, with the name of each. Pure."""
    configure = (
        deps.cmake.path, "-S", str(job.templates), "-B", str(build), "-G", "Ninja",
        f"-DCMAKE_MAKE_PROGRAM={_slashes(job, deps.ninja.path)}", "-DCMAKE_BUILD_TYPE=Release",
        f"-DCMAKE_PREFIX_PATH={_slashes(job, wheel.prefix or '')}",
        f"-DTORCHYARD_CXX_STANDARD={cxx_standard(wheel.release)}",
    )  # fmt: skip
    suffix = ".exe" if job.system == "windows" else ""
    return (
        ("configure against the C++ libraries", configure),
        ("compile against the C++ libraries", (deps.cmake.path, "--build", str(build))),
        ("run the C++ program", (str(build / f"check{suffix}"),)),
    )


def _slashes(job: ValidateJob, path: str) -> str:
    """CMake writes it into files of its own, where a backslash would escape what follows it."""
    return path.replace("\\", "/") if job.system == "windows" else path


def cxx_standard(release: str) -> str:
    """What torch's headers ask for: C++20 from 2.12 on (its own TorchConfig.cmake)."""
    return "20" if numbers(release) >= (2, 12) else "17"


def _with_libraries(job: ValidateJob, wheel: Wheel, env: Mapping[str, str]) -> dict[str, str]:
    """Windows finds the DLLs of a program on PATH; elsewhere CMake writes an RPATH."""
    if job.system != "windows":
        return dict(env)
    return {**env, "PATH": f"{wheel.prefix}\\bin;{wheel.prefix}\\lib;{env.get('PATH', '')}"}
