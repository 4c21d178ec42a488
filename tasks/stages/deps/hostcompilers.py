"""The compilers of this machine, and what compiling takes beside them: BLAS, Python's headers."""

from __future__ import annotations

from pathlib import Path

from tasks.core.deps_model import Captured, DepsJob, Program
from tasks.core.errors import MissingToolError
from tasks.core.model import Command
from tasks.system import files, shell
from tasks.system.hardware import compilers, vcvars
from tasks.system.hardware.packagemanager import installing
from tasks.system.voice import say

_NO_COMPILER = Program("", "")


def find(job: DepsJob) -> tuple[Program, Program, Captured | None]:
    """The C and the C++ compiler, and on Windows the environment that they work in.

    Where the usual compiler is not the one that is taken, that is said. Where nothing is compiled,
    one that is missing or refused keeps nobody from a torch.
    """
    try:
        chosen = compilers.choose((job.cc, job.cxx), job.limits)
        msvc = vcvars.capture(chosen.msvc) if chosen.msvc else None
    except MissingToolError:
        if job.compiles:
            raise
        return _NO_COMPILER, _NO_COMPILER, None
    if chosen.why:
        say(chosen.why)
    return chosen.cc, chosen.cxx, msvc


def require_blas(job: DepsJob, cxx: Program) -> None:
    """`MissingToolError` where the BLAS that a build links is not to be linked with."""
    library = job.system_blas
    if not library:
        return
    scratch = files.own(Path(job.venv).parent / "scratch")
    if not compilers.links_with(cxx.path, library, scratch):
        raise MissingToolError(
            f"build.blas is {library}, and the linker does not find it",
            where="build.blas",
            todo=f"{installing('blas')}, or build.blas: mkl, which comes as a package",
        )


def require_headers(python: str) -> None:
    """`MissingToolError` where that interpreter has no Python.h."""
    query = (
        "import sysconfig, sys; print(sysconfig.get_path('include')); "
        "print('%d.%d' % sys.version_info[:2])"
    )
    include, version = shell.capture(
        Command((python, "-c", query), shell.host_env(), "find Python's headers")
    ).splitlines()
    if not (Path(include) / "Python.h").is_file():
        raise MissingToolError(
            f"the headers of Python {version} are not there: extensions cannot be compiled",
            where=include,
            todo=installing("python-headers", python=version),
        )
