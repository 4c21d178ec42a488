"""Compute the build environment of an extension, and install its requirements and its wheel."""

from __future__ import annotations

import os
import shlex
import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

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

_PREFIX_MAP_VERSION = 10  # GCC has -ffile-prefix-map from 8 on, clang from 10


def read_extension_environment(job: ExtensionJob) -> Mapping[str, str]:
    """Return the extensions' environment with the variables and forced headers of this one."""
    return merge_environment(
        job,
        manifests.read_manifest(job.environment, Environment).build_child_environment(
            shell.build_host_env()
        ),
    )


def read_build_environment(job: ExtensionJob) -> Mapping[str, str]:
    """Return the extension's environment with its build requirements first on each path."""
    env = dict(read_extension_environment(job))
    folder = locate_build_requirements(job)
    before = {"PYTHONPATH": folder, "PATH": folder / "bin"} if folder.is_dir() else {}
    for name, place in before.items():
        env[name] = os.pathsep.join([str(place), *filter(None, [env.get(name, "")])])
    return env


def add_reproducible_flags(
    job: ExtensionJob, deps: DepsManifest, env: Mapping[str, str], date: int
) -> dict[str, str]:
    """Return the environment with flags that make the build reproducible in any checkout.

    The time is that of the source, and the file names in the output are relative to the build
    directory. This is in no manifest, so that it never causes a rebuild. setuptools passes CPPFLAGS
    to the C and C++ compilers. nvcc gets no such flag: its variable would keep results apart in
    ccache.
    """
    flag = f"-ffile-prefix-map={job.deps.parent}=."
    major = deps.cxx.version.partition(".")[0]
    supports_prefix_map = (
        job.system != "windows" and major.isdecimal() and int(major) >= _PREFIX_MAP_VERSION
    )
    if not supports_prefix_map or shlex.quote(flag) != flag:
        return add_source_date(env, date)
    flags = " ".join(filter(None, [env.get("CPPFLAGS", ""), flag]))
    return add_source_date({**env, "CPPFLAGS": flags}, date)


def locate_build_requirements(job: ExtensionJob) -> Path:
    """Return the folder of the build requirements. It may not exist."""
    return Path(job.work) / "requires"


def merge_environment(job: ExtensionJob, shared: Mapping[str, str]) -> dict[str, str]:
    """Return the shared environment with the variables and flags of this extension."""
    env = dict(shared)
    env["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    env.update(job.env)
    for variable, flags in _build_flags(job).items():
        if flags:
            env[variable] = " ".join([*env.get(variable, "").split(), *flags])
    return env


def compute_job_count(
    job: ExtensionJob, deps: DepsManifest, caching: CacheEnvironment, env: Mapping[str, str]
) -> int | None:
    """Return the number of parallel compilers, None if the jobserver decides.

    torch's cpp_extension starts the ninja on PATH with a job count only if MAX_JOBS is set.
    """
    limit = find_job_limit(job)
    if limit and job.jobs_exact:
        return limit
    if job.own_jobs or "MAKEFLAGS" in job.env:
        return compute_safe_jobs(limit, job.compiler_mib if job.own_jobs else 0)
    ninja = shutil.which("ninja", path=env.get("PATH")) or ""
    words = [word for name in _COMPILER_VARIABLES for word in env.get(name, "").split()]
    return resolve_fixed_jobs(limit, job.pool, ninja, deps, (caching.cache.path, *words))


def find_job_limit(job: ExtensionJob) -> int | None:
    """Return the number of jobs in the extension's env or else in the settings, None for `auto`."""
    return max(_read_job_numbers(job).values(), default=job.jobs)


def set_job_count(job: ExtensionJob, env: Mapping[str, str], jobs: int | None) -> dict[str, str]:
    """Return the environment with that number of jobs, or none if the jobserver decides.

    A smaller number in the extension's own env is kept.
    """
    rest = {name: value for name, value in env.items() if name not in JOB_COUNT_VARIABLES}
    if jobs is None:
        return rest
    job_numbers = _read_job_numbers(job)
    return {
        **rest,
        **{name: str(min(jobs, job_numbers.get(name, jobs))) for name in JOB_COUNT_VARIABLES},
    }


def _read_job_numbers(job: ExtensionJob) -> dict[str, int]:
    """Return the numbers of jobs in the extension's env."""
    values = {name: job.env.get(name, "") for name in JOB_COUNT_VARIABLES}
    return {name: int(value) for name, value in values.items() if value.isdecimal() and int(value)}


def _build_flags(job: ExtensionJob) -> Mapping[str, list[str]]:
    """Return the flags that include the forced headers, and the last options for nvcc.

    nvcc takes the same option on all systems. cl, GCC and clang have their own.
    """
    nvcc = [*(f"-include {header}" for header in job.includes), *job.nvcc]
    if job.system == "windows":
        return {"NVCC_APPEND_FLAGS": nvcc, "CL": [f"/FI{header}" for header in job.includes]}
    # setuptools adds CPPFLAGS for C and C++. CXXFLAGS would replace Python's flags.
    preincludes = (
        [f"-include {shlex.quote(str(locate_forced_header(job)))}"] if job.includes else []
    )
    return {"NVCC_APPEND_FLAGS": nvcc, "CPPFLAGS": preincludes}


def locate_forced_header(job: ExtensionJob) -> Path:
    """Return the path of the header that is included before each C and C++ source.

    It exists only if the settings force headers.
    """
    return Path(job.work) / "forced.h"


def format_forced_header(includes: Sequence[str]) -> str:
    """Return the content of the forced header.

    For C, a C++ header is included by its C name, or not at all.
    """
    in_c = [f"{name[1:]}.h" if name in _C_HEADERS else name for name in includes]
    plain = [name for name in in_c if name.endswith(".h")]
    lines = ["#ifdef __cplusplus", *(f"#include <{name}>" for name in includes)]
    lines += ["#else", *(f"#include <{name}>" for name in plain), "#endif", ""]
    return "\n".join(lines)


_MANAGED_PACKAGES = {
    "torch",
    "triton",
}  # this build provides these: never download them for an extension


def install_build_requirements(job: ExtensionJob, deps: DepsManifest) -> None:
    """Install the packages that the extension's build imports into a separate folder.

    The folder precedes all other packages. It is separate because other extensions are built at the
    same time and may need another version. Raises `FetchError` and similar errors, since nothing
    can be built without the packages.
    """
    files.create_owned_folder(job.work)
    if job.includes:
        files.write_atomic(locate_forced_header(job), format_forced_header(job.includes))
    folder = locate_build_requirements(job)
    files.remove_owned(folder)
    overlay = PurePath(deps.overlay) if deps.overlay else None
    missing = _find_missing(job.requires, deps, overlay)
    if not missing:
        return
    show_progress(f"installing {', '.join(missing)}")
    installer = PackageInstaller(deps.python, environments.find_uv(), job.log, folder)
    installer.install_locked(job.locked_requires)
    pins = deps.toolkit.pins if deps.toolkit else ()
    options = () if job.isolated else ("--no-build-isolation",)
    installer.install_requirements(
        missing,
        InstallOptions(pins, options=options),
        f"install what the build of {job.name} imports",
    )
    if (folder / "torch").exists():
        files.remove_owned(folder)
        raise TorchyardError(
            f"{', '.join(missing)} brings a torch, which {job.name} would be built against",
            location=f"extensions ({job.name}).requires",
            hint="take it out of requires; what is built against this torch goes into extensions "
            "or companions, and into after",
        )


def install_runtime_requirements(
    job: ExtensionJob, deps: DepsManifest, asked: Iterable[str]
) -> None:
    """Install the requirements in the wheel's metadata.

    Nothing is installed into the user's environment: missing packages are reported.
    """
    if deps.overlay is None:
        PackageInstaller(deps.python, environments.find_uv(), job.log).install_locked(job.locked)
    missing = _find_missing(asked, deps, None)
    if not missing:
        return
    names = ", ".join(missing)
    if deps.overlay is not None:
        print_warning(f"{job.name} asks for {names}, which {deps.python} lacks")
        return
    show_progress(f"installing {names}")
    installer = PackageInstaller(deps.python, environments.find_uv(), job.log)
    try:
        installer.install_requirements(
            missing, _pin_installed(deps), f"install what {job.name} asks for"
        )
    except TorchyardError as error:  # may be an outdated pin that the extension works without
        print_warning(f"{job.name} asks for {names}, which was not to be had: {error.message}")


def _find_missing(
    asked: Iterable[str], deps: DepsManifest, beside: PurePath | None
) -> tuple[str, ...]:
    others = tuple(_exclude_managed(asked))
    installed = wheel_requirements_io.list_installed_packages(deps.python, beside) if others else {}
    return wheel_requirements_io.find_missing_requirements(others, installed)


def _exclude_managed(asked: Iterable[str]) -> Iterator[str]:
    return (
        one for one in asked if canonicalize_name(Requirement(one).name) not in _MANAGED_PACKAGES
    )


def _pin_installed(deps: DepsManifest) -> InstallOptions:
    """Pin all installed packages: torch, the toolkit, and what other running builds use."""
    installed = wheel_requirements_io.list_installed_packages(deps.python)
    return InstallOptions(
        tuple(f"{name}=={version}" for name, version in sorted(installed.items()))
    )


_INSTALL_LOCK = threading.Lock()


def prepare_build(job: ExtensionJob, deps: DepsManifest) -> None:
    """Install the extension's build requirements, one extension at a time."""
    with _INSTALL_LOCK:
        install_build_requirements(job, deps)


def install_extension(
    job: ExtensionJob, deps: DepsManifest, wheel: Path, unpacked: Path
) -> Artifact:
    """Store and install the wheel if it imports.

    Raises `BadArtifactError` if it does not import. The previously installed wheel then stays.
    """
    installer = PackageInstaller(deps.python, environments.find_uv(), job.log)
    with _INSTALL_LOCK:
        install_runtime_requirements(
            job, deps, wheel_requirements_io.read_wheel_requirements(wheel, deps.python_version)
        )
        _require_import(job, deps, unpacked)
        show_progress("installing")
        stored_wheel, artifact = wheelhouse_io.store_wheel(
            wheel, job.wheelhouse, job.name, job.location
        )
        installer.install_wheel(stored_wheel, InstallOptions(options=("--no-deps",)))
    return artifact


def _require_import(job: ExtensionJob, deps: DepsManifest, unpacked: Path) -> None:
    """Import the modules from the unpacked wheel, before the installed wheel is replaced."""
    if not job.imports:
        return
    show_progress(f"importing {', '.join(job.imports)}")
    env = dict(read_extension_environment(job))
    folders = [unpacked, *unpacked.glob("*.data/p*lib")]
    python_path = [env["PYTHONPATH"]] if env.get("PYTHONPATH") else []
    env["PYTHONPATH"] = os.pathsep.join([*map(str, folders), *python_path])
    command = Command((), env, f"import {job.name}", cwd=unpacked, log=job.log)
    # torch first: the loader finds its libraries only once torch is imported
    result = environments.try_import(
        deps.python, f"import torch, {', '.join(job.imports)}", command
    )
    if result.needs_driver:
        print_line(f"{job.name} imports only where there is a card: {result.problem}")
    elif result.error:
        raise BadArtifactError(
            f"{job.name} was built and does not import: {result.problem}",
            location=result.error.location,
            hint="that log has the whole traceback. What was installed before is there still",
        )
