"""The CUDA toolkit of the environment: one that is here, or one made of NVIDIA's packages."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tasks.core.deps_model import CudaHome, DepsJob
from tasks.core.errors import MissingToolError
from tasks.system import files
from tasks.system.hardware import compilers, cudahome, probe
from tasks.system.python import environments
from tasks.system.python.frozen import read_installed_packages, resolve_required_names
from tasks.system.python.packages import PackageInstaller

_CUOBJDUMP_PACKAGE = "nvidia-cuda-cuobjdump"  # cuda-toolkit names it as an extra from 13.2 on


def prepare_cuda_toolkit(job: DepsJob, python: str) -> CudaHome | None:
    """The toolkit as CUDA_HOME. Raises `MissingToolError` where the planned one is gone."""
    match job.toolkit_provider:
        case "none":
            return None
        case "pypi":
            return _assemble_package_toolkit(job, python)
    version = probe.read_nvcc_version(Path(job.toolkit_home))
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
    home = cudahome.assemble_cuda_home(site, job.cuda_home)
    return CudaHome(
        str(home), probe.read_nvcc_version(home), list_toolkit_pins(site, job.toolkit_packages)
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
    if found := compilers.find_program("cuobjdump"):
        return found.path
    folder = files.create_owned_folder(job.toolkit_folder)
    into = PackageInstaller(python, environments.find_uv(), job.log, folder)
    into.install_locked(job.locked_toolkit)
    into.install_requirements([_CUOBJDUMP_PACKAGE], what="install cuobjdump")
    return str(next(folder.glob(f"nvidia/cu*/bin/{name}")))
