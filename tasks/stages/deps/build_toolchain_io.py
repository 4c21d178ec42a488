"""The compilers of this machine, and what compiling takes beside them: BLAS, Python's headers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tasks.core.deps_model import CudaHome, DepsJob, MsvcEnvironment, Program
from tasks.core.errors import MissingToolError
from tasks.core.model import Command
from tasks.system import environments, files, shell
from tasks.system.environments import read_installed_packages, resolve_required_names
from tasks.system.hardware import cuda_home, host_probe, msvc_toolsets, toolchain
from tasks.system.hardware.operating_system import format_install_command
from tasks.system.output import print_line
from tasks.system.package_installer import PackageInstaller

_NO_COMPILER = Program("", "")


def find_host_compilers(job: DepsJob) -> tuple[Program, Program, MsvcEnvironment | None]:
    """The C and the C++ compiler, and on Windows the environment that they work in.

    Where the usual compiler is not the one that is taken, that is said. Where nothing is compiled,
    one that is missing or refused keeps nobody from a torch.
    """
    try:
        chosen = toolchain.choose_compilers((job.cc, job.cxx), job.limits)
        msvc = msvc_toolsets.capture_msvc_environment(chosen.msvc) if chosen.msvc else None
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
    if not toolchain.can_link_library(cxx.path, library, scratch):
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


_CUOBJDUMP_PACKAGE = "nvidia-cuda-cuobjdump"  # cuda-toolkit names it as an extra from 13.2 on


def prepare_cuda_toolkit(job: DepsJob, python: str) -> CudaHome | None:
    """The toolkit as CUDA_HOME. Raises `MissingToolError` where the planned one is gone."""
    match job.toolkit_provider:
        case "none":
            return None
        case "pypi":
            return _assemble_package_toolkit(job, python)
    version = host_probe.read_nvcc_version(Path(job.toolkit_home))
    if not version:
        raise MissingToolError(
            "the CUDA toolkit that this profile was planned with is gone",
            location=job.toolkit_home,
            hint="install it again, or accept what is here now: doit doctor --accept",
        )
    return CudaHome(job.toolkit_home, version, ())


def _assemble_package_toolkit(job: DepsJob, python: str) -> CudaHome:
    site = environments.find_site_packages(python)
    if job.existing:
        files.remove_owned(job.toolkit_folder)
        site = files.create_owned_folder(job.toolkit_folder)
        into = PackageInstaller(python, environments.find_uv(), job.log, site)
        into.install_locked(job.locked_toolkit)
        into.install_requirements(job.toolkit_packages, what="install the CUDA toolkit")
    home = cuda_home.assemble_cuda_home(site, job.cuda_home)
    return CudaHome(
        str(home), host_probe.read_nvcc_version(home), list_toolkit_pins(site, job.toolkit_packages)
    )


def list_toolkit_pins(site: Path, asked: Sequence[str]) -> tuple[str, ...]:
    """The exact versions of what `asked` brought: constraints for every later install.

    Only of that: torch brings packages of NVIDIA's into the same folder, other ones with each
    release, and they are no part of the toolkit.
    """
    here = read_installed_packages(site)
    return tuple(sorted(here[name].pin for name in resolve_required_names(asked, here)))


def find_cuobjdump(job: DepsJob, python: str, toolkit: CudaHome | None) -> str:
    """Of the toolkit, of an existing torch's triton, of PATH; else its own package.

    triton in an environment of ours does not count: it comes only with torch, and the answer would
    be another one the next time.
    """
    name = "cuobjdump.exe" if sys.platform == "win32" else "cuobjdump"
    places = [Path(toolkit.home) / "bin" / name] if toolkit else []
    if job.existing:
        places.append(environments.find_site_packages(python) / "triton/backends/nvidia/bin" / name)
    for place in [*places, *Path(job.toolkit_folder).glob(f"nvidia/cu*/bin/{name}")]:
        if place.is_file():
            return str(place)
    if found := toolchain.find_program("cuobjdump"):
        return found.path
    folder = files.create_owned_folder(job.toolkit_folder)
    into = PackageInstaller(python, environments.find_uv(), job.log, folder)
    into.install_locked(job.locked_toolkit)
    into.install_requirements([_CUOBJDUMP_PACKAGE], what="install cuobjdump")
    return str(next(folder.glob(f"nvidia/cu*/bin/{name}")))
