"""The search order of the loader, as documented in ld.so(8)."""

from __future__ import annotations

from collections.abc import Mapping

from tasks.wheels.library_linkage import (
    LibrarySearch,
    Linkage,
    LoadedLibrary,
    load_libraries,
    sort_by_load_order,
)

X86, I386 = "EM_X86_64", "EM_386"
PLAIN = Linkage(X86)


def needing(*names: str, rpath: str = "", runpath: str = "", soname: str = "") -> Linkage:
    return Linkage(
        X86,
        soname,
        names,
        tuple(part for part in rpath.split(":") if part),
        tuple(part for part in runpath.split(":") if part),
    )


def gets(
    library: Linkage,
    files: Mapping[str, Linkage],
    path: tuple[str, ...] = (),
    cache: Mapping[str, tuple[str, ...]] | None = None,
    by: Linkage | None = None,
) -> dict[str, str | None]:
    """Return the library that /w/lib/liba.so gets for each direct and transitive dependency."""
    search = LibrarySearch(path, cache or {}, ("/lib",), files.get)
    first = [LoadedLibrary("/py/bin/python", by)] if by else []
    libraries = [*first, LoadedLibrary("/w/lib/liba.so", library, first[0] if first else None)]
    return {need.name: need.place for need in load_libraries(libraries, search)}


def test_origin_in_rpath_is_expanded() -> None:
    files = {"/w/lib/libb.so": PLAIN, "/w/other/libc.so": PLAIN}
    both = needing("libb.so", "libc.so", runpath="$ORIGIN:${ORIGIN}/../other")
    assert gets(both, files) == {"libb.so": "/w/lib/libb.so", "libc.so": "/w/other/libc.so"}


def test_ld_library_path_is_searched_after_rpath_and_before_runpath() -> None:
    files = {"/own/libb.so": PLAIN, "/set/libb.so": PLAIN, "/lib/libb.so": PLAIN}
    assert gets(needing("libb.so", rpath="/own"), files, ("/set",)) == {"libb.so": "/own/libb.so"}
    assert gets(needing("libb.so", runpath="/own"), files, ("/set",)) == {"libb.so": "/set/libb.so"}
    assert gets(needing("libb.so"), files) == {"libb.so": "/lib/libb.so"}


def test_loader_cache_is_searched_before_system_directories() -> None:
    files = {"/opt/blas/libb.so": PLAIN, "/lib/libb.so": PLAIN}
    cache = {"libb.so": ("/gone/libb.so", "/opt/blas/libb.so")}
    assert gets(needing("libb.so"), files, cache=cache) == {"libb.so": "/opt/blas/libb.so"}


def test_rpath_applies_to_transitive_dependencies_but_runpath_does_not() -> None:
    files = {"/own/libb.so": needing("libc.so"), "/own/libc.so": PLAIN}
    assert gets(needing("libb.so", rpath="/own"), files)["libc.so"] == "/own/libc.so"
    assert gets(needing("libb.so", runpath="/own"), files)["libc.so"] is None
    other = {**files, "/own/libb.so": needing("libc.so", runpath="/elsewhere")}
    assert gets(needing("libb.so", rpath="/own"), other)["libc.so"] is None


def test_rpath_of_the_interpreter_applies_to_all() -> None:
    files = {"/py/lib/libb.so": PLAIN}
    python = needing(rpath="$ORIGIN/../lib")
    assert gets(needing("libb.so"), files, by=python) == {"libb.so": "/py/lib/libb.so"}


def test_loaded_library_is_reused_by_soname() -> None:
    files = {"/py/lib/libz.so.1.3": needing(soname="libz.so.1"), "/lib/libz.so.1": PLAIN}
    python = needing("libz.so.1.3", rpath="/py/lib")
    found = gets(needing("libz.so.1"), files, by=python)
    assert found["libz.so.1"] == "/py/lib/libz.so.1.3"


def test_libraries_for_another_machine_are_skipped() -> None:
    files = {"/lib32/libb.so": Linkage(I386), "/lib/libb.so": PLAIN}
    cache = {"libb.so": ("/lib32/libb.so",)}
    assert gets(needing("libb.so"), files, cache=cache) == {"libb.so": "/lib/libb.so"}


def test_library_linked_by_path_is_loaded_from_that_path() -> None:
    files = {"/tree/libb.so": PLAIN, "/lib/libb.so": PLAIN}
    found = gets(needing("/tree/libb.so", "/gone/libc.so"), files)
    assert found == {"/tree/libb.so": "/tree/libb.so", "/gone/libc.so": None}


def test_missing_library_satisfies_no_dependency() -> None:
    held = {"/w/lib/liba.so": needing("libb.so"), "/w/lib/libb.so": needing(soname="libb.so")}
    search = LibrarySearch((), {}, (), held.get)
    (need,) = load_libraries(
        [LoadedLibrary(place, linkage) for place, linkage in held.items()], search
    )
    assert need.place is None


def test_mutually_dependent_libraries_are_found() -> None:
    pair = {
        "/w/liba.so": needing("libb.so", runpath="$ORIGIN"),
        "/w/libb.so": needing("liba.so", runpath="$ORIGIN"),
    }
    search = LibrarySearch((), {}, (), pair.get)
    found = load_libraries(
        [LoadedLibrary(place, linkage) for place, linkage in pair.items()], search
    )
    assert {need.name: need.place for need in found} == {
        "libb.so": "/w/libb.so",
        "liba.so": "/w/liba.so",
    }


def test_torch_libraries_load_first_and_transitive_ones_are_not_opened() -> None:
    held = {
        "functorch/_C.so": needing("libc10.so"),
        "torch/_C.cpython-312.so": needing("libtorch_python.so"),
        "torch/lib/libc10.so": needing(soname="libc10.so"),
        "torch/lib/liblinalg.so": needing("libc10.so"),
        "torch/lib/libtorch_global_deps.so": needing(),
        "torch/lib/libtorch_python.so": needing("libc10.so"),
    }
    assert sort_by_load_order(held) == [
        "torch/lib/libtorch_global_deps.so",
        "torch/_C.cpython-312.so",
        "functorch/_C.so",
        "torch/lib/liblinalg.so",
        "torch/lib/libc10.so",
        "torch/lib/libtorch_python.so",
    ]
