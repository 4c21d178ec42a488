"""Compute the build environment of an extension, and install its requirements and its wheel."""

import os
import shlex
import shutil
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePath

from packaging.requirements import Requirement

from tasks.core.deps_model import DepsManifest
from tasks.core.errors import BadArtifactError, TorchyardError
from tasks.core.model import Artifact, Command
from tasks.jobs.job_scheduler_io import JOB_COUNT_VARIABLES, compute_safe_jobs, resolve_fixed_jobs
from tasks.stages.env.model import LAUNCHER_VARIABLES, CacheEnvironment, Environment
from tasks.stages.extensions.model import ExtensionJob
from tasks.system import environments, files, manifests, shell
from tasks.system.output import print_line, print_warning, show_progress
from tasks.system.package_installer import InstallOptions, PackageInstaller
from tasks.wheels import wheel_requirements_io, wheelhouse_io
from tasks.wheels.build_inputs import add_source_date

# C++ headers that have another name in C
_C_HEADERS = {"cassert", "cfloat", "climits", "cmath", "cstddef", "cstdint", "cstdlib", "cstring"}
# Variables that name a compiler, possibly with a compiler cache as its launcher
_COMPILER_VARIABLES = ("CC", "CXX", "CUDACXX", "PYTORCH_NVCC", *LAUNCHER_VARIABLES)


def read_extension_environment(job: ExtensionJob) -> Mapping[str, str]:
    """Return the shared environment of extensions, with variables and flags of this extension."""
    path = job.layout.compute_manifest_path("extension-env")
    environment = manifests.read_manifest(path, Environment)
    return merge_environment(job, environment.build_child_environment(shell.build_host_env()))


def read_build_environment(job: ExtensionJob) -> Mapping[str, str]:
    """Return the environment of the build, with its requirements first on PYTHONPATH and PATH."""
    env, folder = dict(read_extension_environment(job)), locate_build_requirements(job)
    paths = {"PYTHONPATH": folder, "PATH": folder / "bin"} if folder.is_dir() else {}
    for name, path in paths.items():
        env[name] = os.pathsep.join([str(path), *filter(None, [env.get(name, "")])])
    return env


def add_reproducible_flags(
    job: ExtensionJob, deps: DepsManifest, env: Mapping[str, str], date: int
) -> dict[str, str]:
    """Return the environment with flags that make the build reproducible in any checkout.

    nvcc gets no such flag, because ccache would then have no hits in another checkout. `date` is
    the commit time of the source.
    """
    flag = f"-ffile-prefix-map={job.layout.build}=."
    major = deps.cxx.version.partition(".")[0]
    # GCC has the option from 8 on, clang from 10
    is_supported = job.system != "windows" and major.isdecimal() and int(major) >= 10
    if is_supported and shlex.quote(flag) == flag:
        env = {**env, "CPPFLAGS": " ".join(filter(None, [env.get("CPPFLAGS", ""), flag]))}
    return add_source_date(env, date)


def locate_build_requirements(job: ExtensionJob) -> Path:
    """Return the folder of the build requirements. It may not exist."""
    return Path(job.work, "requires")


def merge_environment(job: ExtensionJob, shared: Mapping[str, str]) -> dict[str, str]:
    """Return the shared environment with the variables and flags of this extension."""
    env = {**shared, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **job.env}
    # nvcc takes -include on all systems; cl, GCC and clang get flags in their own variables
    flags = {"NVCC_APPEND_FLAGS": [*(f"-include {header}" for header in job.includes), *job.nvcc]}
    if job.system == "windows":
        flags["CL"] = [f"/FI{header}" for header in job.includes]
    elif job.includes:
        # setuptools adds CPPFLAGS for C and C++. CXXFLAGS would replace Python's flags.
        flags["CPPFLAGS"] = [f"-include {shlex.quote(str(locate_forced_header(job)))}"]
    for variable, options in flags.items():
        if options:
            env[variable] = " ".join([*env.get(variable, "").split(), *options])
    return env


def compute_job_count(
    job: ExtensionJob, deps: DepsManifest, caching: CacheEnvironment, env: Mapping[str, str]
) -> int | None:
    """Return the number of parallel compilers, or None if the jobserver decides."""
    limit = find_job_limit(job)
    if limit and job.jobs_exact:
        return limit
    if job.own_jobs or "MAKEFLAGS" in job.env:
        return compute_safe_jobs(limit, job.compiler_mib if job.own_jobs else 0)
    ninja = shutil.which("ninja", path=env.get("PATH")) or ""
    words = [word for name in _COMPILER_VARIABLES for word in env.get(name, "").split()]
    launchers = (caching.cache.path, *words)
    return resolve_fixed_jobs(limit, job.layout.jobserver, ninja, deps, launchers)


def find_job_limit(job: ExtensionJob) -> int | None:
    """Return the highest job count in `job.env`, or `job.jobs` if `job.env` has none."""
    return max(_read_job_numbers(job).values(), default=job.jobs)


def set_job_count(job: ExtensionJob, env: Mapping[str, str], jobs: int | None) -> dict[str, str]:
    """Return `env` with job counts of at most `jobs`, or without job counts if `jobs` is `None`."""
    result = {name: value for name, value in env.items() if name not in JOB_COUNT_VARIABLES}
    if jobs is not None:
        numbers = _read_job_numbers(job)
        result |= {name: str(min(jobs, numbers.get(name, jobs))) for name in JOB_COUNT_VARIABLES}
    return result


def _read_job_numbers(job: ExtensionJob) -> dict[str, int]:
    values = {name: job.env.get(name, "") for name in JOB_COUNT_VARIABLES}
    return {name: int(value) for name, value in values.items() if value.isdecimal() and int(value)}


def locate_forced_header(job: ExtensionJob) -> Path:
    """Return the path of the header that includes all headers of `job.includes`."""
    return Path(job.work, "forced.h")


def format_forced_header(includes: Sequence[str]) -> str:
    """Return the text of a header that includes `includes`. C sources get only the C headers."""
    in_c = [f"{name[1:]}.h" if name in _C_HEADERS else name for name in includes]
    lines = ["#ifdef __cplusplus", *(f"#include <{name}>" for name in includes), "#else"]
    lines += [f"#include <{name}>" for name in in_c if name.endswith(".h")]
    return "\n".join([*lines, "#endif", ""])


# the profile provides these packages: never download them for an extension
_MANAGED_PACKAGES = {"torch", "triton"}
_INSTALL_LOCK = threading.Lock()


def prepare_build(job: ExtensionJob, deps: DepsManifest) -> None:
    """Write the header that all source files include, and install the build requirements.

    Only one extension installs at a time. The requirements of each are in a separate folder,
    because extensions that build in parallel may need different versions of a package.
    """
    with _INSTALL_LOCK:
        files.create_owned_folder(job.work)
        if job.includes:
            files.write_atomic(locate_forced_header(job), format_forced_header(job.includes))
        folder = locate_build_requirements(job)
        files.remove_owned(folder)
        overlay = PurePath(deps.overlay) if deps.overlay else None
        if not (missing := _find_missing(job.requires, deps, overlay)):
            return
        names = ", ".join(missing)
        show_progress(f"installing {names}")
        installer = PackageInstaller(deps.python, environments.find_uv(), job.log, folder)
        installer.install_locked(job.locked_requires)
        pins = deps.toolkit.pins if deps.toolkit else ()
        purpose = f"install the build requirements of {job.name}"
        options = InstallOptions(pins, options=() if job.isolated else ("--no-build-isolation",))
        installer.install_requirements(missing, options, purpose)
        if (folder / "torch").exists():
            files.remove_owned(folder)
            raise TorchyardError(
                f"{names} installs another torch, and {job.name} would be built against that torch",
                location=f"extensions ({job.name}).requires",
                hint="move packages that need torch out of `requires`: list them in extensions or "
                f"companions, and in the key `after` of {job.name}",
            )


def _install_runtime_requirements(
    job: ExtensionJob, deps: DepsManifest, requirements: Iterable[str]
) -> None:
    """Install the missing requirements, or only warn about them in an environment of the user."""
    installer = PackageInstaller(deps.python, environments.find_uv(), job.log)
    if deps.overlay is None:
        installer.install_locked(job.locked)
    names = ", ".join(missing := _find_missing(requirements, deps, None))
    if missing and deps.overlay is not None:
        print_warning(
            f"{job.name} requires packages that {deps.python} lacks; install them: {names}"
        )
    elif missing:
        show_progress(f"installing {names}")
        # keep the versions of torch, the toolkit, and the packages that other running builds use
        installed = wheel_requirements_io.list_installed_packages(deps.python)
        pins = tuple(f"{name}=={version}" for name, version in sorted(installed.items()))
        purpose = f"install the requirements of {job.name}"
        try:
            installer.install_requirements(missing, InstallOptions(pins), purpose)
        except TorchyardError as error:  # the requirement may be outdated
            print_warning(f"cannot install {names}, which {job.name} requires: {error.message}")


def _find_missing(
    requirements: Iterable[str], deps: DepsManifest, overlay: PurePath | None
) -> tuple[str, ...]:
    others = tuple(
        one for one in requirements if Requirement(one).name.lower() not in _MANAGED_PACKAGES
    )
    if not others:
        return ()
    installed = wheel_requirements_io.list_installed_packages(deps.python, overlay)
    return wheel_requirements_io.find_missing_requirements(others, installed)


def install_extension(
    job: ExtensionJob, deps: DepsManifest, wheel: Path, unpacked: Path
) -> Artifact:
    """Store and install the wheel. Raises `BadArtifactError` if its imports fail."""
    with _INSTALL_LOCK:
        requirements = wheel_requirements_io.read_wheel_requirements(wheel, deps.python_version)
        _install_runtime_requirements(job, deps, requirements)
        _require_import(job, deps, unpacked)
        show_progress("installing")
        stored = wheelhouse_io.store_wheel(wheel, job.layout.wheelhouse, job.name, job.location)
        stored_wheel, artifact = stored
        installer = PackageInstaller(deps.python, environments.find_uv(), job.log)
        installer.install_wheel(stored_wheel, InstallOptions(options=("--no-deps",)))
    return artifact


def _require_import(job: ExtensionJob, deps: DepsManifest, unpacked: Path) -> None:
    """Raise `BadArtifactError` if importing the unpacked wheel fails, unless that needs a GPU."""
    if not (modules := ", ".join(job.imports)):
        return
    show_progress(f"importing {modules}")
    env = dict(read_extension_environment(job))
    folders = map(str, (unpacked, *unpacked.glob("*.data/p*lib")))
    env["PYTHONPATH"] = os.pathsep.join([*folders, *filter(None, [env.get("PYTHONPATH", "")])])
    command = Command((), env, f"import {job.name}", cwd=unpacked, log=job.log)
    # import torch first: only then does the loader find torch's libraries
    result = environments.try_import(deps.python, f"import torch, {modules}", command)
    if result.needs_driver:
        print_line(f"{job.name} was not imported, because that needs a GPU: {result.problem}")
    elif result.error:
        raise BadArtifactError(
            f"{job.name} was built, but cannot be imported: {result.problem}",
            location=result.error.location,
            hint="see the traceback in that log; the previous installation is unchanged",
        )
