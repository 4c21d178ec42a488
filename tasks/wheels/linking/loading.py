"""Which files the libraries of a wheel would get from the loader of Linux. Pure.

The rules are those of ld.so(8). What is in the process already is taken by its name, wherever it
came from. Then come RPATH (unlike RUNPATH it holds also for what a library brings in turn, so those
of all that led here count, up to the interpreter's), LD_LIBRARY_PATH, RUNPATH, the cache and the
folders of the system. What is outside the wheel is loaded in the same way, since it may bring what
a library of the wheel needs.
"""

from __future__ import annotations

import posixpath
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tasks.wheels.linking.values import Linkage

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
