"""The compilers of this machine, and what compiling takes beside them: BLAS, Python's headers."""

from __future__ import annotations

from pathlib import Path

from tasks.core.deps_model import DepsJob, MsvcEnvironment, Program
from tasks.core.errors import MissingToolError
from tasks.core.model import Command
from tasks.system import files, shell
from tasks.system.hardware import compilers, vcvars
from tasks.system.hardware.packagemanager import format_install_command
from tasks.system.voice import print_line

_NO_COMPILER = Program("", "")


def find_host_compilers(job: DepsJob) -> tuple[Program, Program, MsvcEnvironment | None]:
    """The C and the C++ compiler, and on Windows the environment that they work in.

    Where the usual compiler is not the one that is taken, that is said. Where nothing is compiled,
    one that is missing or refused keeps nobody from a torch.
    """
    try:
        chosen = compilers.choose_compilers((job.cc, job.cxx), job.limits)
        msvc = vcvars.capture_msvc_environment(chosen.msvc) if chosen.msvc else None
    except MissingToolError:
        if job.compiles:
            raise
        return _NO_COMPILER, _NO_COMPILER, None
    if chosen.why:
        print_line(chosen.why)
    return chosen.cc, chosen.cxx, msvc


def require_blas(job: DepsJob, cxx: Program) -> None:
    """`MissingToolError` where the BLAS that a build links is not to be linked with."""
    library = job.system_blas
    if not library:
        return
    scratch = files.create_owned_folder(Path(job.venv).parent / "scratch")
    if not compilers.can_link_library(cxx.path, library, scratch):
        raise MissingToolError(
            f"build.blas is {library}, and the linker does not find it",
            location="build.blas",
            hint=f"{format_install_command('blas')}, or build.blas: mkl, which comes as a package",
        )


def require_python_headers(python: str) -> None:
    """`MissingToolError` where that interpreter has no Python.h."""
    query = (
        "import sysconfig, sys; print(sysconfig.get_path('include')); "
        "print('%d.%d' % sys.version_info[:2])"
    )
    include, version = shell.capture_output(
        Command((python, "-c", query), shell.build_host_env(), "find Python's headers")
    ).splitlines()
    if not (Path(include) / "Python.h").is_file():
        raise MissingToolError(
            f"the headers of Python {version} are not there: extensions cannot be compiled",
            location=include,
            hint=format_install_command("python-headers", python=version),
        )
