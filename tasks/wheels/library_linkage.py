"""Describe what libraries export and need, and resolve the origin of each needed library."""

from __future__ import annotations

import posixpath
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from tasks.core.errors import BadArtifactError
from tasks.core.text_formatting import format_short_list
from tasks.wheels.nvidia_packages import find_nvidia_package

# "toolkit" includes NVIDIA's packages, "environment" the other packages, and "build" the sources
LibraryOrigin = Literal["wheel", "toolkit", "environment", "build", "system", "driver"]


@dataclass(frozen=True)
class ExportedSymbols:
    """A digest of exported symbols. `cxx11_abi` is True for the C++11 ABI, `None` if unknown."""

    digest: str
    cxx11_abi: bool | None


@dataclass(frozen=True)
class ExportedSymbolsCache:
    """The content of wheel-symbols.json: the exported symbols of torch's libraries.

    `libraries` has RECORD digests as keys. `reader` is the version of the code that read symbols.
    """

    reader: int
    libraries: Mapping[str, ExportedSymbols]


@dataclass(frozen=True)
class Linkage:
    """The dynamic section of a library or program. `rpath` and `runpath` may contain `$ORIGIN`."""

    machine: str
    soname: str = ""
    needed: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()


@dataclass(frozen=True)
class SystemDlls:
    """Names of DLLs in lower case, grouped by their provider: Windows, Python, or Visual C++."""

    windows: frozenset[str] = frozenset()
    python: frozenset[str] = frozenset()
    redistributable: frozenset[str] = frozenset()


@dataclass(frozen=True)
class LinkageCache:
    """The content of wheel-linkages.json: the linkages of the last wheel's libraries.

    `libraries` has RECORD digests as keys, and `None` for a file that is not ELF. `reader` is the
    version of the code that made this file.
    """

    reader: int
    libraries: Mapping[str, Linkage | None]


@dataclass(frozen=True)
class PatchedLibraries:
    """The content of wheel-patched.json: the digest of each library with a changed RPATH."""

    libraries: Mapping[str, str]


@dataclass(frozen=True)
class LinkedLibrary:
    """The origin of each library that a library needs, and of each absolute path in its RPATH."""

    needed: Mapping[str, LibraryOrigin]
    paths: Mapping[str, LibraryOrigin]


@dataclass(frozen=True)
class WheelLibraries:
    """The content of wheel-libraries.json, which shows users what each library of `wheel` needs."""

    wheel: str
    libraries: Mapping[str, LinkedLibrary]


_OPENED_FIRST = ("torch/lib/libtorch_global_deps.", "torch/_C.")  # opened by torch/__init__.py


@dataclass(frozen=True)
class LoadedLibrary:
    """A loaded library or interpreter. `by` is the library that loaded it."""

    place: str
    linkage: Linkage
    by: LoadedLibrary | None = None


@dataclass(frozen=True)
class LibrarySearch:
    """The search path of the loader, except RPATH and RUNPATH. `path` is LD_LIBRARY_PATH.

    `cache` maps library names to files. `folders` are searched last. `look` reads the linkage of a
    file.
    """

    path: tuple[str, ...]
    cache: Mapping[str, tuple[str, ...]]
    folders: tuple[str, ...]
    look: Callable[[str], Linkage | None]


@dataclass(frozen=True)
class LibraryNeed:
    """`library` needs the library `name`. `place` is the file found, `None` if missing."""

    library: str
    name: str
    place: str | None


def sort_by_load_order(libraries: Mapping[str, Linkage]) -> list[str]:
    """Return the libraries in the order in which they are loaded."""
    # first the libraries that torch opens first, then those that no other library needs
    needed = {name for linkage in libraries.values() for name in linkage.needed}

    def compute_rank(name: str) -> tuple[bool | str, ...]:
        first = (not name.startswith(start) for start in _OPENED_FIRST)
        return *first, bool(needed & {libraries[name].soname, posixpath.basename(name)}), name

    return sorted(libraries, key=compute_rank)


def load_libraries(libraries: Sequence[LoadedLibrary], search: LibrarySearch) -> list[LibraryNeed]:
    """Simulate how a process loads `libraries` in this order. Return what each library needs.

    A library is found if the search path of any loaded library leads to it.
    """
    places: dict[str, str] = {}
    opened: dict[str, LoadedLibrary] = {}
    for library in libraries:
        waiting = deque([library])
        while waiting:  # breadth first, as the loader does
            one = waiting.popleft()
            if one.place in opened:
                continue
            opened[one.place] = one
            for name in [name for name in one.linkage.needed if name not in places]:
                if dependency := _find_library(name, one, search):
                    places[name] = dependency.place
                    places.setdefault(dependency.linkage.soname or name, dependency.place)
                    waiting.append(dependency)
    needs = ((place, name) for place, one in opened.items() for name in one.linkage.needed)
    return [LibraryNeed(place, name, places.get(name)) for place, name in needs]


def _find_library(name: str, user: LoadedLibrary, search: LibrarySearch) -> LoadedLibrary | None:
    for place in _list_candidate_paths(name, user, search):
        linkage = search.look(place)
        # skip other architectures: the cache also has 32-bit libraries
        if linkage and linkage.machine == user.linkage.machine:
            return LoadedLibrary(place, linkage, user)
    return None


def _list_candidate_paths(name: str, user: LoadedLibrary, search: LibrarySearch) -> Iterator[str]:
    if "/" in name:  # linked by path, because the library has no soname
        yield name
        return
    folders: list[str] = []
    # The RPATH of the library and of the libraries that loaded it; a RUNPATH disables the RPATH
    loader: LoadedLibrary | None = None if user.linkage.runpath else user
    while loader:
        folders += () if loader.linkage.runpath else _expand_origin(loader, loader.linkage.rpath)
        loader = loader.by
    folders += [*search.path, *_expand_origin(user, user.linkage.runpath)]
    yield from (posixpath.join(folder, name) for folder in folders)
    yield from search.cache.get(name, ())
    yield from (posixpath.join(folder, name) for folder in search.folders)


def _expand_origin(one: LoadedLibrary, folders: Iterable[str]) -> Iterator[str]:
    """Yield the absolute directories of an RPATH, with `$ORIGIN` expanded; skip relative ones."""
    origin = posixpath.dirname(one.place)
    for folder in folders:
        full = folder.replace("${ORIGIN}", origin).replace("$ORIGIN", origin)
        if full.startswith("/"):
            yield posixpath.normpath(full)


# Libraries of the GPU driver, which a machine without a GPU does not have
_DRIVER_LIBRARIES = ("libcuda.so", "libnvidia-", "libnvcuvid.so", "libnvoptix.so",
        "libcudadebugger.so")  # fmt: skip
# Libraries of the C runtime, which every Linux system with Python has
_C_LIBRARIES = ("libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "libutil.so", "ld-")
_ORIGIN_PHRASES: Mapping[LibraryOrigin, str] = {
    "system": "from the system",
    "toolkit": "from the toolkit",
    "environment": "from packages of the environment",
    "build": "from the build folder",
    "driver": "from the driver",
}
_MAX_NAMES = 8  # names in a line of output; wheel-libraries.json has all names


def resolve_library_origins(
    wheel: PurePath,
    libraries: Mapping[str, Linkage],
    needs: Sequence[LibraryNeed],
    owner: Callable[[str], LibraryOrigin],
) -> WheelLibraries:
    """Return what each library of the wheel needs, with the origin of each needed library.

    `owner` returns the origin of a file. Raises `BadArtifactError` if a needed library is missing.
    """
    users: dict[str, list[str]] = defaultdict(list)  # of the libraries that are not found
    for need in needs:
        if not need.place and not is_driver_library(need.name):
            users[need.name].append(need.library)
    if users:
        own_names = {x.soname for x in libraries.values()} | {PurePath(n).name for n in libraries}
        raise _build_missing_error(wheel, own_names, users)
    linked = {}
    for library, linkage in libraries.items():
        needed: dict[str, LibraryOrigin] = {
            need.name: "driver" if is_driver_library(need.name) else owner(need.place or "")
            for need in needs
            if need.library == library
        }
        # a needed library without soname is an absolute path, too
        paths = (*linkage.rpath, *linkage.runpath, *linkage.needed)
        origins = {path: owner(path) for path in paths if path.startswith("/")}
        linked[library] = LinkedLibrary(needed, origins)
    return WheelLibraries(wheel.name, linked)


def is_driver_library(name: str) -> bool:
    """Return True for a library of the GPU driver. A machine without a GPU does not have these."""
    return name.startswith(_DRIVER_LIBRARIES)


def _build_missing_error(
    wheel: PurePath, own_names: set[str], users: Mapping[str, Sequence[str]]
) -> BadArtifactError:
    reasons = [
        f"no RPATH leads from {', '.join(names)} to {name} in the wheel"
        if name in own_names
        else f"{name} (needed by {', '.join(names)}) is not on this machine"
        for name, names in users.items()
    ]
    message = f"the wheel was not installed: {'; '.join(reasons)}. Nothing was changed"
    hint = "install the package that contains the library, or add its folder to LD_LIBRARY_PATH"
    if own_names.issuperset(users):
        hint = "remove CMAKE_SKIP_RPATH and CMAKE_INSTALL_RPATH from build.flags and build.env"
    hint = f"{hint}. Then run the same command again"
    return BadArtifactError(message, location=str(wheel), hint=hint)


def summarize_libraries(found: WheelLibraries) -> str:
    """Describe what another machine must provide: `9 libraries; from the system: libblas.so.3`."""
    count = len(found.libraries)
    parts = [f"{count} libraries" if count != 1 else "1 library"]
    needed = {need for linked in found.libraries.values() for need in linked.needed.items()}
    for origin, phrase in _ORIGIN_PHRASES.items():
        if names := sorted(n for n, o in needed if o == origin and not n.startswith(_C_LIBRARIES)):
            parts.append(f"{phrase}: {format_short_list(names, _MAX_NAMES)}")
    return "; ".join(parts)


def needs_toolkit_libraries(found: WheelLibraries) -> bool:
    """Return True if a library needs a CUDA library that comes from the system or the toolkit."""
    needed = (one for linked in found.libraries.values() for one in linked.needed.items())
    local = {"system", "toolkit"}
    return any(find_nvidia_package(name) and origin in local for name, origin in needed)


def list_rpath_warnings(found: WheelLibraries) -> Iterator[str]:
    """Yield a warning for each path of the build directory in the RPATH of a library."""
    users: dict[str, list[str]] = defaultdict(list)
    for name, linked in found.libraries.items():
        for path, origin in linked.paths.items():
            if origin == "build":
                users[path].append(PurePath(name).name)
    effect = "This torch works only on this machine, and only while this folder exists"
    for path, names in sorted(users.items()):
        yield f"the RPATH of {', '.join(names)} contains {path}. {effect}"
