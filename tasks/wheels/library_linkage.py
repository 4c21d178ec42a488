"""What a library exports and needs, and who has that: read of wheels and of what is installed,
and of no use to a plan.
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

# Who supplies a library: the wheel itself, the CUDA toolkit or NVIDIA's packages, another Python
# package, something left in the build folder or the source tree, the system, the driver
LibraryOrigin = Literal["wheel", "toolkit", "environment", "build", "system", "driver"]


@dataclass(frozen=True)
class ExportedSymbols:
    """What a library exports, as a digest; `cxx11_abi` as in `Surface`, by its names."""

    digest: str
    cxx11_abi: bool | None


@dataclass(frozen=True)
class ExportedSymbolsCache:
    """wheel-symbols.json: what was read in the libraries of the last torch, by their digests in
    RECORD, or by size and time where there is none. `reader` tells which reading it was.
    """

    reader: int
    libraries: Mapping[str, ExportedSymbols]


@dataclass(frozen=True)
class Linkage:
    """The dynamic section of a library, or of a program.

    `machine` is what it is made for ("EM_X86_64"), `soname` "" where it has none. `rpath` and
    `runpath` are folders as they are written, `$ORIGIN` and all.
    """

    machine: str
    soname: str = ""
    needed: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()


@dataclass(frozen=True)
class SystemDlls:
    """Of names that a wheel needs, in small letters: which come with every Windows, which with
    Python, and which with the Visual C++ redistributable.
    """

    windows: frozenset[str] = frozenset()
    python: frozenset[str] = frozenset()
    redistributable: frozenset[str] = frozenset()


@dataclass(frozen=True)
class LinkageCache:
    """wheel-linkages.json: what was read in the libraries of the last wheel, by their digests in
    RECORD, None for one of another format. `reader` tells which reading it was.
    """

    reader: int
    libraries: Mapping[str, Linkage | None]


@dataclass(frozen=True)
class PatchedLibraries:
    """wheel-patched.json: the libraries of the last wheel whose RPATH was set. A digest of what the
    linker left and of the RPATH → the sha256 of what became of it, as RECORD writes it.
    """

    libraries: Mapping[str, str]


@dataclass(frozen=True)
class LinkedLibrary:
    """What one library is linked with: library → who supplies it; and the absolute paths in it, of
    RPATH above all → whose they are.
    """

    needed: Mapping[str, LibraryOrigin]
    paths: Mapping[str, LibraryOrigin]


@dataclass(frozen=True)
class WheelLibraries:
    """wheel-libraries.json, for people: what the libraries of a wheel need and who has it here, and
    so what another machine has to have.
    """

    wheel: str
    libraries: Mapping[str, LinkedLibrary]


_OPENED_FIRST = ("torch/lib/libtorch_global_deps.", "torch/_C.")  # by torch/__init__.py


@dataclass(frozen=True)
class LoadedLibrary:
    """A library, or the interpreter, in the process; `by` is what needed it first."""

    place: str
    linkage: Linkage
    by: LoadedLibrary | None = None


@dataclass(frozen=True)
class LibrarySearch:
    """Where the loader looks beyond the paths of the libraries themselves.

    `path` is LD_LIBRARY_PATH, `cache` maps a name to files, `folders` come last, and `look` tells
    what lies at a place, None where nothing does.
    """

    path: tuple[str, ...]
    cache: Mapping[str, tuple[str, ...]]
    folders: tuple[str, ...]
    look: Callable[[str], Linkage | None]


@dataclass(frozen=True)
class LibraryNeed:
    """`library` needs `name` and gets the file `place`, None where there is none."""

    library: str
    name: str
    place: str | None


def sort_by_load_order(held: Mapping[str, Linkage]) -> list[str]:
    """The libraries of a wheel in the order to open them: those that torch opens first, then those
    that no other one needs.

    The others come in through these, and may find by their RPATH what they would not find alone.
    """
    needed = {name for linkage in held.values() for name in linkage.needed}

    def compute_rank(name: str) -> tuple[bool, ...]:
        first = (not name.startswith(start) for start in _OPENED_FIRST)
        return *first, bool(needed & {held[name].soname, posixpath.basename(name)})

    return sorted(held, key=lambda name: (compute_rank(name), name))


def load_libraries(libraries: Sequence[LoadedLibrary], search: LibrarySearch) -> list[LibraryNeed]:
    """What each library that comes in needs and gets, `libraries` one after the other into one
    process.

    A need is met by whatever came in for any of them: in which order Python opens them is not known
    here. A library that is only opened itself, and that nobody found, meets none.
    """
    known: dict[str, str] = {}
    opened: dict[str, LoadedLibrary] = {}
    for library in libraries:
        waiting = deque([library])
        while waiting:  # breadth first, as the loader does
            one = waiting.popleft()
            if one.place not in opened:
                opened[one.place] = one
                waiting += _load_dependencies(one, known, search)
    return [
        LibraryNeed(place, name, known.get(name))
        for place, one in opened.items()
        for name in one.linkage.needed
    ]


def _load_dependencies(
    one: LoadedLibrary, known: dict[str, str], search: LibrarySearch
) -> list[LoadedLibrary]:
    """What comes in because `one` needs it; `known` gets its names."""
    missing = [name for name in one.linkage.needed if name not in known]
    found = {name: library for name in missing if (library := _find_library(name, one, search))}
    for name, library in found.items():
        known[name] = library.place
        known.setdefault(library.linkage.soname or name, library.place)
    return list(found.values())


def _find_library(name: str, one: LoadedLibrary, search: LibrarySearch) -> LoadedLibrary | None:
    for place in _list_candidate_paths(name, one, search):
        linkage = search.look(place)
        # those for another machine are passed over: 32 bit libraries are in the same cache
        if linkage and linkage.machine == one.linkage.machine:
            return LoadedLibrary(place, linkage, one)
    return None


def _list_candidate_paths(name: str, one: LoadedLibrary, search: LibrarySearch) -> Iterator[str]:
    if "/" in name:  # linked by its path, since it has no soname
        yield name
        return
    first = () if one.linkage.runpath else _list_inherited_rpaths(one)
    for folder in (*first, *search.path, *_expand_origin(one, one.linkage.runpath)):
        yield posixpath.join(folder, name)
    yield from search.cache.get(name, ())
    for folder in search.folders:
        yield posixpath.join(folder, name)


def _list_inherited_rpaths(one: LoadedLibrary | None) -> Iterator[str]:
    """RPATH of a library and of those that led to it; what has a RUNPATH has no RPATH."""
    while one:
        yield from () if one.linkage.runpath else _expand_origin(one, one.linkage.rpath)
        one = one.by


def _expand_origin(one: LoadedLibrary, folders: Iterable[str]) -> Iterator[str]:
    """Absolute folders; `$LIB` and `$PLATFORM` are not replaced, PyTorch uses neither."""
    origin = posixpath.dirname(one.place)
    for folder in folders:
        full = folder.replace("${ORIGIN}", origin).replace("$ORIGIN", origin)
        if full.startswith("/"):
            yield posixpath.normpath(full)


# Of the driver's own packages, which a machine without a card does not have
_DRIVER_LIBRARIES = (
    "libcuda.so",
    "libnvidia-",
    "libnvcuvid.so",
    "libnvoptix.so",
    "libcudadebugger.so",
)
# Of the C library: whatever runs this Python has them
_C_LIBRARIES = ("libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "libutil.so", "ld-")
_ORIGIN_PHRASES: Mapping[LibraryOrigin, str] = {
    "system": "from the system",
    "toolkit": "from the toolkit",
    "environment": "from packages of the environment",
    "build": "from the build folder",
    "driver": "from the driver",
}
_MAX_NAMES = 8  # names in a line for people; the file has all


def resolve_library_origins(
    wheel: PurePath,
    held: Mapping[str, Linkage],
    needs: Sequence[LibraryNeed],
    owner: Callable[[str], LibraryOrigin],
) -> WheelLibraries:
    """What each library `held` by the wheel needs, and whose that is.

    `needs` are theirs, by their names in the wheel; `owner` tells whose a file or folder is. Raises
    `BadArtifactError` for what is nowhere.
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
    """Whether a library may be absent where torch is built: there need not be a card."""
    return name.startswith(_DRIVER_LIBRARIES)


def _list_absolute_paths(linkage: Linkage) -> Iterator[str]:
    """Also a needed library can be named by its path: one without soname."""
    paths = (*linkage.rpath, *linkage.runpath, *linkage.needed)
    return (path for path in paths if path.startswith("/"))


def _require_all_found(
    wheel: PurePath, held: Mapping[str, Linkage], missing: Iterable[LibraryNeed]
) -> None:
    by: dict[str, list[str]] = {}
    for need in missing:
        if not is_driver_library(need.name):
            by.setdefault(need.name, []).append(need.library)
    if not by:
        return
    inside = {PurePath(name).name for name in held} | {one.soname for one in held.values()}
    todo = (
        "take what changes RPATH (CMAKE_SKIP_RPATH, CMAKE_INSTALL_RPATH) out of build.flags and "
        "build.env"
        if inside.issuperset(by)
        else "install the package that has it, or put its folder on LD_LIBRARY_PATH"
    )
    raise BadArtifactError(
        "not installed, and what was installed before stays: "
        + "; ".join(_format_missing_library(name, users, inside) for name, users in by.items()),
        location=str(wheel),
        hint=f"{todo}; then run the same command again",
    )


def _format_missing_library(name: str, users: Sequence[str], inside: Iterable[str]) -> str:
    if name in inside:
        return f"{name} is in the wheel, and no RPATH leads there from {', '.join(users)}"
    return f"{name} is nowhere on this machine (needed by {', '.join(users)})"


def summarize_libraries(found: WheelLibraries) -> str:
    """`9 libraries; from the system: libblas.so.3, libgomp.so.1`: what another machine has to
    have.
    """
    count = len(found.libraries)
    parts = [f"{count} libraries" if count != 1 else "1 library"]
    for origin, words in _ORIGIN_PHRASES.items():
        names = sorted(
            {
                name
                for linked in found.libraries.values()
                for name, of in linked.needed.items()
                if of == origin and not name.startswith(_C_LIBRARIES)
            }
        )
        if names:
            parts.append(f"{words}: {format_short_list(names, _MAX_NAMES)}")
    return "; ".join(parts)


def needs_toolkit_libraries(found: WheelLibraries) -> bool:
    """Whether any library takes one of CUDA from where it is on this machine."""
    needed = (one for linked in found.libraries.values() for one in linked.needed.items())
    return any(find_nvidia_package(name) and of in {"system", "toolkit"} for name, of in needed)


def list_rpath_warnings(found: WheelLibraries) -> Iterator[str]:
    """A warning for each place of the build that a library leads to."""
    users: dict[str, list[str]] = {}
    for name, linked in found.libraries.items():
        for path, of in linked.paths.items():
            if of == "build":
                users.setdefault(path, []).append(PurePath(name).name)
    for path, names in sorted(users.items()):
        yield (
            f"{', '.join(names)}: bound by RPATH to {path}, so that this torch works only on this "
            "machine, and as long as that is there"
        )
