"""Run the `deps` stage: prepare and inspect the build environment."""

import contextlib
import secrets
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tasks.compiler_cache import cache_program_io as cache
from tasks.core.canonical_json import compute_text_sha256, format_canonical_json
from tasks.core.deps_model import (
    CompilerCache,
    CudaHome,
    DepsJob,
    DepsManifest,
    MsvcEnvironment,
    Program,
    ToolchainStamps,
)
from tasks.core.errors import MissingToolError, TorchyardError
from tasks.core.model import Command
from tasks.system import environments, files, interpreters, shell
from tasks.system.environments import read_installed_packages, resolve_required_names
from tasks.system.hardware import host_probe, msvc_toolsets, toolchain
from tasks.system.hardware.operating_system import format_install_command
from tasks.system.output import print_line, print_warning
from tasks.system.package_installer import PackageInstaller
from tasks.wheels import wheel_requirements_io

_IDENTITY_NAME = "torchyard-identity"


def run(job: DepsJob) -> tuple[DepsManifest, CompilerCache, ToolchainStamps]:
    """Prepare the build environment and return the manifests of the stage.

    Compilers are searched first, so that a missing compiler is reported before any download.
    """
    cc, cxx, msvc = _find_host_compilers(job)
    git = toolchain.find_program("git")
    if not git and job.git_needed:
        hint = format_install_command("git")
        raise MissingToolError(f"git is required {job.git_needed}", hint=hint)
    _require_blas(job, cxx)
    selected_cache = cache.select_cache(job)
    files.require_minimum_space(job.venv, "the build environment")
    python = _prepare_environment(job)
    if job.compiles:
        _require_python_headers(python)
    cuda = _prepare_cuda_toolkit(job, python)
    scripts = environments.find_scripts_folder(job.venv)
    if job.existing:  # in an overlay, pip and uv also use `bin` on Windows
        scripts = Path(job.overlay) / "bin"
    deps = DepsManifest(
        python=python,
        python_version=interpreters.find_interpreter(python).version,
        # the random id written into a new venv, or the path of an existing interpreter
        identity=job.base if job.existing else _read_identity_lines(job)[0],
        overlay=str(job.overlay) if job.existing else None,
        scripts=str(scripts),
        toolkit=cuda,
        cuobjdump=_find_cuobjdump(job, python, cuda) if job.with_cuda else None,
        cc=replace(cc, digest=toolchain.hash_program(cc.path)),
        cxx=replace(cxx, digest=toolchain.hash_program(cxx.path)),
        cmake=_find_build_tool(scripts, "cmake"),
        ninja=_find_build_tool(scripts, "ninja"),
        git=git,
        msvc=msvc,
    )
    compiler_cache = selected_cache or cache.install_cache(job, python, scripts)
    return deps, compiler_cache, _read_toolchain_stamps(deps, compiler_cache)


def _read_toolchain_stamps(deps: DepsManifest, used: CompilerCache) -> ToolchainStamps:
    nvcc = toolchain.build_nvcc_path(deps.toolkit.home) if deps.toolkit else ""
    sdk = msvc_toolsets.find_sdk_header(deps.msvc)
    paths = filter(None, (deps.cc.path, deps.cxx.path, used.path, sdk, nvcc))
    return ToolchainStamps({path: toolchain.stamp_program(path) for path in paths})


def _find_host_compilers(job: DepsJob) -> tuple[Program, Program, MsvcEnvironment | None]:
    """Return the C compiler, the C++ compiler, and the MSVC environment (only on Windows).

    If nothing is compiled and the compilers are missing or unsupported, both paths are "".
    """
    try:
        selection = toolchain.choose_compilers((job.cc, job.cxx), job.limits)
        msvc = msvc_toolsets.capture_msvc_environment(selection.msvc) if selection.msvc else None
    except MissingToolError:
        if job.compiles:
            raise
        return Program("", ""), Program("", ""), None
    if selection.why:
        print_line(selection.why)
    return selection.cc, selection.cxx, msvc


def _require_blas(job: DepsJob, cxx: Program) -> None:
    """Raise `MissingToolError` if the build needs a system BLAS that cannot be linked."""
    library = job.system_blas
    if not library:
        return
    scratch = files.create_owned_folder(Path(job.venv).parent / "scratch")
    if not toolchain.can_link_library(cxx.path, library, scratch):
        message = f"build.blas is {library}, but the linker does not find this library"
        hint = f"{format_install_command('blas')}, or set build.blas: mkl (a Python package)"
        raise MissingToolError(message, location="build.blas", hint=hint)


def _require_python_headers(python: str) -> None:
    """Raise `MissingToolError` if the interpreter has no Python.h."""
    query = "from sysconfig import *; print(get_path('include')); print(get_python_version())"
    command = Command((python, "-c", query), shell.build_host_env(), "find Python's headers")
    include, version = shell.capture_output(command).splitlines()
    if not (Path(include) / "Python.h").is_file():
        message = f"the headers of Python {version} are missing: extensions cannot be compiled"
        hint = format_install_command("python-headers", python=version)
        raise MissingToolError(message, location=include, hint=hint)


def _prepare_cuda_toolkit(job: DepsJob, python: str) -> CudaHome | None:
    """Return the CUDA toolkit or `None`. Raises `MissingToolError` if the user's has no nvcc."""
    if job.toolkit_provider == "none":
        return None
    if job.toolkit_provider != "pypi":
        if version := host_probe.read_nvcc_version(Path(job.toolkit_home)):
            return CudaHome(job.toolkit_home, version, ())
        message = "the CUDA toolkit that this profile was planned with is missing"
        hint = "install the toolkit again, or use what is installed now: doit doctor --accept"
        raise MissingToolError(message, location=job.toolkit_home, hint=hint)
    site = environments.find_site_packages(python)
    if job.existing:
        files.remove_owned(job.toolkit_folder)
        site = files.create_owned_folder(job.toolkit_folder)
        installer = PackageInstaller(python, environments.find_uv(), job.log, site)
        installer.install_locked(job.locked_toolkit)
        installer.install_requirements(job.toolkit_packages, what="install the CUDA toolkit")
    home = toolchain.assemble_cuda_home(site, job.cuda_home)
    pins = list_toolkit_pins(site, job.toolkit_packages)
    return CudaHome(str(home), host_probe.read_nvcc_version(home), pins)


def list_toolkit_pins(site: Path, packages: Sequence[str]) -> tuple[str, ...]:
    """Return `NAME==VERSION` for each of the packages and their dependencies."""
    installed = read_installed_packages(site)
    required = resolve_required_names(packages, installed)
    return tuple(sorted(installed[name].pin for name in required))


def _find_cuobjdump(job: DepsJob, python: str, toolkit: CudaHome | None) -> str:
    """Return the path of cuobjdump. If the program is not found, it is installed.

    With the strategy `existing`, the cuobjdump in the package triton is used too.
    """
    name = "cuobjdump.exe" if sys.platform == "win32" else "cuobjdump"
    places = [Path(toolkit.home) / "bin" / name] if toolkit else []
    if job.existing:
        places.append(environments.find_site_packages(python) / "triton/backends/nvidia/bin" / name)
    for path in [*places, *Path(job.toolkit_folder).glob(f"nvidia/cu*/bin/{name}")]:
        if path.is_file():
            return str(path)
    if program := toolchain.find_program("cuobjdump"):
        return program.path
    folder = files.create_owned_folder(job.toolkit_folder)
    installer = PackageInstaller(python, environments.find_uv(), job.log, folder)
    installer.install_locked(job.locked_toolkit)
    # cuobjdump is an extra of cuda-toolkit since 13.2
    installer.install_requirements(["nvidia-cuda-cuobjdump"], what="install cuobjdump")
    return str(next(folder.glob(f"nvidia/cu*/bin/{name}")))


def _prepare_environment(job: DepsJob) -> str:
    """Install the build tools, and return the interpreter to install packages into."""
    uv = environments.find_uv()
    if uv is None:
        print_warning("uv cannot run on this machine; pip installs the packages, more slowly")
    if job.existing:
        files.create_owned_folder(job.overlay)
        installer = PackageInstaller(job.base, uv, job.log, job.overlay)
        installer.install_locked(job.locked)
        installed = wheel_requirements_io.list_installed_packages(job.base, job.overlay)
        tools = list(wheel_requirements_io.find_missing_requirements(job.tools, installed))
        if not tools:
            return job.base
    else:
        _ensure_venv(job, uv)
        installer = PackageInstaller(str(environments.find_venv_python(job.venv)), uv, job.log)
        installer.install_locked(job.locked)
        tools = [*job.tools, *job.toolkit_packages]
    installer.install_requirements(tools, what="install the build tools")
    return installer.python


def _ensure_venv(job: DepsJob, uv: str | None) -> None:
    """Create the venv, unless one with the same Python and CUDA toolkit packages exists."""
    base_version = interpreters.find_interpreter(job.base).version
    toolkit_digest = compute_text_sha256(format_canonical_json(job.toolkit_packages))
    python = environments.find_venv_python(job.venv)
    if _read_identity_lines(job)[1:] == [toolkit_digest] and python.exists():
        with contextlib.suppress(TorchyardError):
            if interpreters.find_interpreter(str(python)).version == base_version:
                return
    files.remove_owned(job.venv)
    environments.create_venv(job.venv, job.base, uv, job.log)
    identity = f"{secrets.token_hex(8)}\n{toolkit_digest}\n"
    files.write_atomic(Path(job.venv) / _IDENTITY_NAME, identity)


def _read_identity_lines(job: DepsJob) -> list[str]:
    file = Path(job.venv) / _IDENTITY_NAME
    return file.read_text(encoding="utf-8").splitlines() if file.is_file() else []


def _find_build_tool(scripts: Path, name: str) -> Program:
    managed_path = environments.build_program_path(scripts, name)
    program = toolchain.find_program(str(managed_path)) or toolchain.find_program(name)
    if not program:
        message = f"{name} is missing, although it was just installed"
        raise MissingToolError(message, location=str(scripts))
    return program
