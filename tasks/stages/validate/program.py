"""A C++ program through find_package(Torch): what shows that a build without Python works."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from tasks.core.deps_model import DepsManifest
from tasks.core.errors import CommandFailedError
from tasks.core.model import Command, ValidationResult
from tasks.knowledge.versions import parse_major_minor
from tasks.stages.validate.job import ValidateJob
from tasks.stages.wheel.job import Wheel
from tasks.system import files, shell

CPP_CHECK = "find_package(Torch)"


def check_cpp_program(
    job: ValidateJob, deps: DepsManifest, wheel: Wheel, env: Mapping[str, str]
) -> ValidationResult:
    """Configure, compile and run it, in a folder that is empty each time."""
    files.remove_owned(job.work)
    build = files.create_owned_folder(job.work) / "libtorch"
    lines: list[str] = []
    try:
        for what, argv in list_cpp_steps(job, deps, wheel, build):
            command = Command(
                argv, _add_library_path(job, wheel, env), what, log=job.log, timeout=job.timeout
            )
            shell.run_command(command, lines.append)
    except CommandFailedError as error:
        return ValidationResult(CPP_CHECK, "failed", error.message, f"see {error.location}")
    return ValidationResult(CPP_CHECK, "passed", lines[-1] if lines else "exit 0")


def list_cpp_steps(
    job: ValidateJob, deps: DepsManifest, wheel: Wheel, build: PurePath
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """What is run, one after the other, with the name of each. Pure."""
    configure = (
        deps.cmake.path, "-S", str(job.templates), "-B", str(build), "-G", "Ninja",
        f"-DCMAKE_MAKE_PROGRAM={_format_cmake_path(job, deps.ninja.path)}", "-DCMAKE_BUILD_TYPE=Release",
        f"-DCMAKE_PREFIX_PATH={_format_cmake_path(job, wheel.prefix or '')}",
        f"-DTORCHYARD_CXX_STANDARD={find_cxx_standard(wheel.release)}",
    )  # fmt: skip
    suffix = ".exe" if job.system == "windows" else ""
    return (
        ("configure against the C++ libraries", configure),
        ("compile against the C++ libraries", (deps.cmake.path, "--build", str(build))),
        ("run the C++ program", (str(build / f"check{suffix}"),)),
    )


def _format_cmake_path(job: ValidateJob, path: str) -> str:
    """CMake writes it into files of its own, where a backslash would escape what follows it."""
    return path.replace("\\", "/") if job.system == "windows" else path


def find_cxx_standard(release: str) -> str:
    """What torch's headers ask for: C++20 from 2.12 on (its own TorchConfig.cmake)."""
    return "20" if parse_major_minor(release) >= (2, 12) else "17"


def _add_library_path(job: ValidateJob, wheel: Wheel, env: Mapping[str, str]) -> dict[str, str]:
    """Windows finds the DLLs of a program on PATH; elsewhere CMake writes an RPATH."""
    if job.system != "windows":
        return dict(env)
    return {**env, "PATH": f"{wheel.prefix}\\bin;{wheel.prefix}\\lib;{env.get('PATH', '')}"}
