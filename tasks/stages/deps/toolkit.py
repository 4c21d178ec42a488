"""The CUDA toolkit of the environment: one that is here, or one made of NVIDIA's packages."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

from tasks.effects import compilers, cudahome, environments, files, probe
from tasks.effects.packages import Packages
from tasks.errors import MissingToolError
from tasks.stages.deps.job import CudaHome, DepsJob

_CUOBJDUMP = "nvidia-cuda-cuobjdump"  # cuda-toolkit names it as an extra from 13.2 on


def make(job: DepsJob, python: str) -> CudaHome | None:
    """The toolkit as CUDA_HOME. Raises `MissingToolError` where the planned one is gone."""
    match job.toolkit_provider:
        case "none":
            return None
        case "pypi":
            return _of_packages(job, python)
    version = probe.nvcc_version(Path(job.toolkit_home))
    if not version:
        raise MissingToolError(
            "the CUDA toolkit that this profile was planned with is gone",
            where=job.toolkit_home,
            todo="install it again, or accept what is here now: doit doctor --accept",
        )
    return CudaHome(job.toolkit_home, version, ())


def _of_packages(job: DepsJob, python: str) -> CudaHome:
    site = environments.site_packages(python)
    if job.existing:
        site = files.own(job.toolkit_folder)
        into = Packages(python, environments.find_uv(), job.log, site)
        into.install(job.toolkit_packages, what="install the CUDA toolkit")
    home = cudahome.assemble(site, job.cuda_home)
    return CudaHome(str(home), probe.nvcc_version(home), _pins(site))


def _pins(site: Path) -> tuple[str, ...]:
    """The exact versions of NVIDIA's packages: constraints for every later install."""
    found = importlib.metadata.distributions(path=[str(site)])
    named = ((item.metadata["Name"], item.version) for item in found)
    return tuple(sorted(f"{n}=={v}" for n, v in named if n.startswith(("nvidia-", "cuda-toolkit"))))


def find_cuobjdump(job: DepsJob, python: str, toolkit: CudaHome | None) -> str:
    """Of the toolkit, of triton in the environment, of PATH; else its own package."""
    name = "cuobjdump.exe" if sys.platform == "win32" else "cuobjdump"
    places = [environments.site_packages(python) / "triton/backends/nvidia/bin" / name]
    if toolkit:
        places.insert(0, Path(toolkit.home) / "bin" / name)
    for place in places:
        if place.is_file():
            return str(place)
    if found := compilers.program("cuobjdump"):
        return found.path
    folder = files.own(job.toolkit_folder)
    into = Packages(python, environments.find_uv(), job.log, folder)
    into.install([_CUOBJDUMP], what="install cuobjdump")
    return str(next(folder.glob(f"nvidia/cu*/bin/{name}")))
