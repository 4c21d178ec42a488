"""What the libraries of a built wheel need, looked at before it replaces what is installed.

They are read out of the wheel, one at a time, and not in the build folder: the wheel is what is
installed, CMake rewrites RPATH on the way into it, and the tree keeps libraries of earlier builds.
They are unpacked for that, since a reader seeks, and going back in a packed file means unpacking it
from its beginning. Programs in torch/bin are left out: an import starts none of them.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path, PurePath

from tasks.core.deps_model import DepsManifest
from tasks.core.errors import TorchyardError
from tasks.stages.compile.job import CompileResult
from tasks.stages.env.job import Environment
from tasks.stages.wheel.job import BuiltJob
from tasks.system import files, manifests, shell
from tasks.system.python import environments
from tasks.system.voice import print_line, print_warning, show_progress
from tasks.wheels.binaries import elf, loader
from tasks.wheels.files import wheelfile
from tasks.wheels.linking.linkage import (
    list_rpath_warnings,
    resolve_library_origins,
    summarize_libraries,
)
from tasks.wheels.linking.loading import (
    LibraryNeed,
    LibrarySearch,
    LoadedLibrary,
    load_libraries,
    sort_by_load_order,
)
from tasks.wheels.linking.values import LibraryOrigin, Linkage, LinkageCache, WheelLibraries

_LINKAGE_READER_VERSION = 1  # raised where elf.read comes to find more in a library


def inspect_libraries(
    job: BuiltJob,
    deps: DepsManifest,
    wheel: Path,
    recorded: Mapping[str, str],
    promised: Collection[str] = (),
) -> WheelLibraries:
    """What wheel-libraries.json is to say; `BadArtifactError` where a library is nowhere here.
    `promised` are files below site-packages that the install of the wheel brings.

    Windows and macOS have formats of their own, which are not read: the file is then empty.
    """
    show_progress("looking at what its libraries need")
    held = read_linkages(job, wheel, recorded, job.linkages)
    found = WheelLibraries(wheel.name, {})
    if held:
        site = environments.find_site_packages(deps.python)
        own = [n for n in find_library_needs(job, deps, held, site, promised) if n.library in held]
        found = resolve_library_origins(
            wheel, held, own, _build_origin_lookup(job, deps, held, site)
        )
        for warning in list_rpath_warnings(found):
            print_warning(warning)
        print_line(summarize_libraries(found))
    return found


def read_linkages(
    job: BuiltJob, wheel: Path, recorded: Mapping[str, str], kept: PurePath
) -> dict[str, Linkage]:
    """Each ELF library of a wheel whose members are `recorded`, by its name there; those that the
    last wheel held in the same bytes, by the file `kept`, are not read again.
    """
    known = _read_known_linkages(kept)
    found: dict[str, Linkage | None] = {}
    folder = files.create_owned_folder(Path(job.landing) / "libraries")
    with zipfile.ZipFile(wheel) as archive:
        for name in wheelfile.list_libraries(recorded):
            digest = recorded[name]
            if digest and digest in known:
                found[name] = known[digest]
                continue
            unpacked = Path(archive.extract(name, folder))
            found[name] = elf.read_elf_linkage(unpacked)
            unpacked.unlink()  # a whole torch holds gigabytes of them
    read = {recorded[name]: linkage for name, linkage in found.items()}
    manifests.write_manifest(kept, LinkageCache(_LINKAGE_READER_VERSION, read))
    return {name: linkage for name, linkage in found.items() if linkage}


def _read_known_linkages(kept: PurePath) -> Mapping[str, Linkage | None]:
    try:
        before = manifests.read_manifest(kept, LinkageCache)
    except TorchyardError:
        return {}
    return before.libraries if before.reader == _LINKAGE_READER_VERSION else {}


def find_library_needs(
    job: BuiltJob,
    deps: DepsManifest,
    held: Mapping[str, Linkage],
    site: Path,
    promised: Collection[str] = (),
) -> list[LibraryNeed]:
    """What the libraries need, and get once the wheel is installed in `site`; theirs by their names
    in the wheel, and what all that comes in through them needs, by its place.
    """
    named = {str(site / name): name for name in sort_by_load_order(held)}
    python = os.path.realpath(deps.python)  # the loader's $ORIGIN of a program follows links
    by = LoadedLibrary(python, elf.read_elf_linkage(Path(python)) or Linkage(""))
    libraries = [by, *(LoadedLibrary(place, held[name], by) for place, name in named.items())]
    search = _build_library_search(job, held, site, {str(site / place) for place in promised})
    found = load_libraries(libraries, search)
    return [replace(need, library=named.get(need.library, need.library)) for need in found]


def _build_library_search(
    job: BuiltJob, held: Mapping[str, Linkage], site: Path, promised: Collection[str]
) -> LibrarySearch:
    """The environment is that of the import, and of validate. torch/__init__.py itself looks into
    NVIDIA's packages where the loader finds nothing.
    """
    env = manifests.read_manifest(job.env, Environment).build_child_environment(
        shell.build_host_env()
    )
    packages = sorted(str(folder) for folder in site.glob("nvidia/*/lib"))
    return LibrarySearch(
        path=tuple(folder for folder in env.get("LD_LIBRARY_PATH", "").split(":") if folder),
        cache=loader.read_loader_cache(env),
        folders=(*loader.list_loader_folders(), *packages),
        look=_build_linkage_lookup(held, site, promised),
    )


def _build_linkage_lookup(
    held: Mapping[str, Linkage], site: Path, promised: Collection[str]
) -> Callable[[str], Linkage | None]:
    """What lies at a place once the wheel is installed; the torch that is there now goes."""
    machine = next((one.machine for one in held.values()), "")
    ours = {str(site / name): linkage for name, linkage in held.items()}
    folders = tuple(f"{folder}/" for folder in _list_package_folders(held, site))

    def read_linkage_at(place: str) -> Linkage | None:
        if place in ours or place.startswith(folders):
            return ours.get(place)
        try:
            return elf.read_elf_linkage(Path(place))
        except OSError:
            return Linkage(machine) if place in promised else None

    return read_linkage_at


def _list_package_folders(held: Mapping[str, Linkage], site: Path) -> list[Path]:
    """torch and functorch."""
    return sorted({site / PurePath(name).parts[0] for name in held})


def _build_origin_lookup(
    job: BuiltJob, deps: DepsManifest, held: Mapping[str, Linkage], site: Path
) -> Callable[[str], LibraryOrigin]:
    """Who has a place: the first of these whose folder, with all links followed, has it in it."""
    home = deps.toolkit.home if deps.toolkit else "/usr"
    places: list[tuple[LibraryOrigin, PurePath]] = [
        *(("wheel", folder) for folder in _list_package_folders(held, site)),
        ("toolkit", site / "nvidia"),
        *((("toolkit", Path(home)),) if home != "/usr" else ()),  # there all is the system's
        ("environment", Path(deps.scripts).parent),
        ("build", job.build),
        ("build", Path(manifests.read_manifest(job.compiled, CompileResult).tree)),
    ]
    owners = [(of, PurePath(os.path.realpath(folder))) for of, folder in places]

    def find_origin(place: str) -> LibraryOrigin:
        real = PurePath(os.path.realpath(place))
        return next((of for of, folder in owners if real.is_relative_to(folder)), "system")

    return find_origin
