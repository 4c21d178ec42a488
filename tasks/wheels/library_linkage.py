"""Describe the exports and needs of libraries, and resolve where each needed library comes from.

The facts are read from wheels and installed packages; planning does not use them.
"""

from __future__ import annotations

import posixpath
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from tasks.core.errors import BadArtifactError
from tasks.core.text_formatting import format_short_list
from tasks.wheels.nvidia_packages import find_nvidia_package

# The origin of a library: the wheel itself, the CUDA toolkit or NVIDIA's packages, another Python
# package, the build directory or the source tree, the system, the driver
LibraryOrigin = Literal["wheel", "toolkit", "environment", "build", "system", "driver"]


@dataclass(frozen=True)
class ExportedSymbols:
    """A digest of the exported symbols of a library.

    `cxx11_abi` is as in `AbiFingerprint`, determined from the symbol names.
    """

    digest: str
    cxx11_abi: bool | None


@dataclass(frozen=True)
class ExportedSymbolsCache:
    """wheel-symbols.json: the exported symbols of the libraries of the last torch.

    The keys are their digests in RECORD, or size and time without RECORD. `reader` is the version
    of the reading code.
    """

    reader: int
    libraries: Mapping[str, ExportedSymbols]


@dataclass(frozen=True)
class Linkage:
    """The dynamic section of a library or of a program.

    `machine` is its architecture ("EM_X86_64"), `soname` is "" if it has no soname. `rpath` and
    `runpath` are directories as written, with `$ORIGIN`.
    """

    machine: str
    soname: str = ""
    needed: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()


@dataclass(frozen=True)
class SystemDlls:
    """The needed DLLs, in lower case, that come with Windows, Python or the Visual C++ runtime."""

    windows: frozenset[str] = frozenset()
    python: frozenset[str] = frozenset()
    redistributable: frozenset[str] = frozenset()


@dataclass(frozen=True)
class LinkageCache:
    """wheel-linkages.json: the linkages of the libraries of the last wheel.

    The keys are their digests in RECORD. The value is None for a library of another format.
    `reader` is the version of the reading code.
    """

    reader: int
    libraries: Mapping[str, Linkage | None]


@dataclass(frozen=True)
class PatchedLibraries:
    """wheel-patched.json: the libraries of the last wheel whose RPATH was set.

    The keys are digests of the linked file and the RPATH. The values are the sha256 of the patched
    file, in the notation of RECORD.
    """

    libraries: Mapping[str, str]


@dataclass(frozen=True)
class LinkedLibrary:
    """The linkage of one library: the origin of each needed library and of each absolute path.

    The absolute paths are mainly those of its RPATH.
    """

    needed: Mapping[str, LibraryOrigin]
    paths: Mapping[str, LibraryOrigin]


@dataclass(frozen=True)
class WheelLibraries:
    """wheel-libraries.json, for the user: the needs of a wheel's libraries and their origins here.

    From this follows what another machine must provide.
    """

    wheel: str
    libraries: Mapping[str, LinkedLibrary]


_OPENED_FIRST = ("torch/lib/libtorch_global_deps.", "torch/_C.")  # by torch/__init__.py


@dataclass(frozen=True)
class LoadedLibrary:
    """A library, or the interpreter, in the process; `by` is the first library that needed it."""

    place: str
    linkage: Linkage
    by: LoadedLibrary | None = None


@dataclass(frozen=True)
class LibrarySearch:
    """The search path of the loader, beyond the paths in the libraries.

    `path` is LD_LIBRARY_PATH, `cache` maps a name to files, `folders` are searched last. `look`
    returns the linkage of the file at a path, None if there is no such library.
    """

    path: tuple[str, ...]
    cache: Mapping[str, tuple[str, ...]]
    folders: tuple[str, ...]
    look: Callable[[str], Linkage | None]


@dataclass(frozen=True)
class LibraryNeed:
    """`library` needs `name`, and the loader finds the file `place`, None if it finds no file."""

    library: str
    name: str
    place: str | None


def sort_by_load_order(held: Mapping[str, Linkage]) -> list[str]:
    """Return the libraries of a wheel in load order.

    Those that torch opens first come first, then those that no other library needs. The others are
    loaded by these, and may be found by their RPATH only.
    """
    needed = {name for linkage in held.values() for name in linkage.needed}

    def compute_rank(name: str) -> tuple[bool, ...]:
        first = (not name.startswith(start) for start in _OPENED_FIRST)
        return *first, bool(needed & {held[name].soname, posixpath.basename(name)})

    return sorted(held, key=lambda name: (compute_rank(name), name))


def load_libraries(libraries: Sequence[LoadedLibrary], search: LibrarySearch) -> list[LibraryNeed]:
    """Return what each library needs and finds when `libraries` load in order into one process.

    A need is met by a library that was loaded for any other: the order in which Python opens them
    is unknown. A library that is only opened directly, and never found by a search, meets no need.
    """
    places: dict[str, str] = {}
    opened: dict[str, LoadedLibrary] = {}
    for library in libraries:
        waiting = deque([library])
        while waiting:  # breadth first, as the loader does
            one = waiting.popleft()
            if one.place not in opened:
                opened[one.place] = one
                waiting += _load_dependencies(one, places, search)
    return [
        LibraryNeed(place, name, places.get(name))
        for place, one in opened.items()
        for name in one.linkage.needed
    ]


def _load_dependencies(
    one: LoadedLibrary, known: dict[str, str], search: LibrarySearch
) -> list[LoadedLibrary]:
    """Return the libraries that load because `one` needs them, and add their names to `known`."""
    missing = [name for name in one.linkage.needed if name not in known]
    libraries = {name: library for name in missing if (library := _find_library(name, one, search))}
    for name, library in libraries.items():
        known[name] = library.place
        known.setdefault(library.linkage.soname or name, library.place)
    return list(libraries.values())


def _find_library(name: str, one: LoadedLibrary, search: LibrarySearch) -> LoadedLibrary | None:
    for place in _list_candidate_paths(name, one, search):
        linkage = search.look(place)
        # skip other architectures: 32-bit libraries are in the same cache
        if linkage and linkage.machine == one.linkage.machine:
            return LoadedLibrary(place, linkage, one)
    return None


def _list_candidate_paths(name: str, one: LoadedLibrary, search: LibrarySearch) -> Iterator[str]:
    if "/" in name:  # linked by path: it has no soname
        yield name
        return
    first = () if one.linkage.runpath else _list_inherited_rpaths(one)
    for folder in (*first, *search.path, *_expand_origin(one, one.linkage.runpath)):
        yield posixpath.join(folder, name)
    yield from search.cache.get(name, ())
    for folder in search.folders:
        yield posixpath.join(folder, name)


def _list_inherited_rpaths(one: LoadedLibrary | None) -> Iterator[str]:
    """Yield the RPATH of a library and of those that loaded it; a RUNPATH disables the RPATH."""
    while one:
        yield from () if one.linkage.runpath else _expand_origin(one, one.linkage.rpath)
        one = one.by


def _expand_origin(one: LoadedLibrary, folders: Iterable[str]) -> Iterator[str]:
    """Yield absolute directories. `$LIB` and `$PLATFORM` are not replaced: PyTorch uses neither."""
    origin = posixpath.dirname(one.place)
    for folder in folders:
        full = folder.replace("${ORIGIN}", origin).replace("$ORIGIN", origin)
        if full.startswith("/"):
            yield posixpath.normpath(full)


# From the driver's packages, which a machine without a GPU does not have
_DRIVER_LIBRARIES = (
    "libcuda.so",
    "libnvidia-",
    "libnvcuvid.so",
    "libnvoptix.so",
    "libcudadebugger.so",
)
# From the C library: present wherever this Python runs
_C_LIBRARIES = ("libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "libutil.so", "ld-")
_ORIGIN_PHRASES: Mapping[LibraryOrigin, str] = {
    "system": "from the system",
    "toolkit": "from the toolkit",
    "environment": "from packages of the environment",
    "build": "from the build folder",
    "driver": "from the driver",
}
_MAX_NAMES = 8  # names in a line of output; the file has all


def resolve_library_origins(
    wheel: PurePath,
    held: Mapping[str, Linkage],
    needs: Sequence[LibraryNeed],
    owner: Callable[[str], LibraryOrigin],
) -> WheelLibraries:
    """Return what each library of the wheel (`held`) needs, and the origins.

    `needs` are the needs of these libraries, by their names in the wheel. `owner` returns the
    origin of a file or directory. Raises `BadArtifactError` for a library that is not found.
    """
    _require_all_found(wheel, held, [need for need in needs if not need.place])
    return WheelLibraries(
        wheel.name,
        {
            name: LinkedLibrary(
                {
                    need.name: "driver" if is_driver_library(need.name) else owner(need.place or "")
                    for need in needs
                    if need.library == name
                },
                {path: owner(path) for path in _list_absolute_paths(linkage)},
            )
            for name, linkage in held.items()
        },
    )


def is_driver_library(name: str) -> bool:
    """Return True if a library may be missing on the build machine, which may have no GPU."""
    return name.startswith(_DRIVER_LIBRARIES)


def _list_absolute_paths(linkage: Linkage) -> Iterator[str]:
    """Return the absolute paths of a linkage, also of needed libraries without soname."""
    paths = (*linkage.rpath, *linkage.runpath, *linkage.needed)
    return (path for path in paths if path.startswith("/"))


def _require_all_found(
    wheel: PurePath, held: Mapping[str, Linkage], missing: Iterable[LibraryNeed]
) -> None:
    users_by_name: dict[str, list[str]] = {}
    for need in missing:
        if not is_driver_library(need.name):
            users_by_name.setdefault(need.name, []).append(need.library)
    if not users_by_name:
        return
    wheel_names = {PurePath(name).name for name in held} | {one.soname for one in held.values()}
    hint = (
        "take what changes RPATH (CMAKE_SKIP_RPATH, CMAKE_INSTALL_RPATH) out of build.flags and "
        "build.env"
        if wheel_names.issuperset(users_by_name)
        else "install the package that has it, or put its folder on LD_LIBRARY_PATH"
    )
    raise BadArtifactError(
        "not installed, and what was installed before stays: "
        + "; ".join(
            _format_missing_library(name, users, wheel_names)
            for name, users in users_by_name.items()
        ),
        location=str(wheel),
        hint=f"{hint}; then run the same command again",
    )


def _format_missing_library(name: str, users: Sequence[str], inside: Iterable[str]) -> str:
    if name in inside:
        return f"{name} is in the wheel, and no RPATH leads there from {', '.join(users)}"
    return f"{name} is nowhere on this machine (needed by {', '.join(users)})"


def summarize_libraries(found: WheelLibraries) -> str:
    """Return what another machine must provide.

    Example: `9 libraries; from the system: libblas.so.3, libgomp.so.1`.
    """
    count = len(found.libraries)
    parts = [f"{count} libraries" if count != 1 else "1 library"]
    for origin, words in _ORIGIN_PHRASES.items():
        names = sorted(
            {
                name
                for linked in found.libraries.values()
                for name, source in linked.needed.items()
                if source == origin and not name.startswith(_C_LIBRARIES)
            }
        )
        if names:
            parts.append(f"{words}: {format_short_list(names, _MAX_NAMES)}")
    return "; ".join(parts)


def needs_toolkit_libraries(found: WheelLibraries) -> bool:
    """Return True if any library uses a CUDA library of this machine."""
    needed = (one for linked in found.libraries.values() for one in linked.needed.items())
    return any(
        find_nvidia_package(name) and source in {"system", "toolkit"} for name, source in needed
    )


def list_rpath_warnings(found: WheelLibraries) -> Iterator[str]:
    """Yield a warning for each path in the build directory that a library refers to."""
    users: dict[str, list[str]] = {}
    for name, linked in found.libraries.items():
        for path, source in linked.paths.items():
            if source == "build":
                users.setdefault(path, []).append(PurePath(name).name)
    for path, names in sorted(users.items()):
        yield (
            f"{', '.join(names)}: bound by RPATH to {path}, so that this torch works only on this "
            "machine, and as long as that is there"
        )
