"""In what two surfaces of torch differ, the first of each kind with its name. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from tasks.core.digest import changes, plain
from tasks.core.formatting.moved import moved
from tasks.stages.wheel.job import Parts, Surface

_INCLUDE = "torch/include/"
_FACTS = {
    "release": "torch",
    "cuda": "CUDA",
    "python_tag": "Python",
    "cxx11_abi": "_GLIBCXX_USE_CXX11_ABI",
    "cxx_standard": "C++ standard",
}


def differences(before: Parts, after: Parts, named: Callable[[str], str]) -> Iterator[str]:
    """What an extension has to be built again for. In another release, or for another CUDA, all
    that follows from that goes without saying. `named` makes a symbol readable.
    """
    yield from moved(changes(plain(_facts(before.surface)), plain(_facts(after.surface))), _FACTS)
    if (before.surface.release, before.surface.cuda) == (after.surface.release, after.surface.cuda):
        yield from _headers(before.headers, after.headers)
        for library in sorted({*before.symbols, *after.symbols}):
            yield from _symbols(library, before.symbols, after.symbols, named)


def _facts(surface: Surface) -> Surface:
    return replace(surface, headers="", symbols="", identity="")


def _headers(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    verbs = {
        "changed": [name for name in before if before[name] != after.get(name, before[name])],
        "is gone": before.keys() - after.keys(),
        "is new": after.keys() - before.keys(),
    }
    found = [(name, verb) for verb, names in verbs.items() for name in sorted(names)]
    if found:
        (first, verb), *rest = found
        yield f"{first} {verb}{_more(len(rest), _kind(name for name, _ in rest))}"


def _kind(names: Iterator[str]) -> str:
    return "header" if all(name.startswith(_INCLUDE) for name in names) else "file"


def _symbols(
    library: str,
    before: Mapping[str, Sequence[str]],
    after: Mapping[str, Sequence[str]],
    named: Callable[[str], str],
) -> Iterator[str]:
    name = library.rpartition("/")[2]
    had, has = set(before.get(library, ())), set(after.get(library, ()))
    if library not in after:
        yield f"{name} is gone"
    elif library not in before:
        yield f"{name} is new"
    else:
        yield from _exports(f"{name} no longer exports", had - has, named)
        yield from _exports(f"{name} now exports", has - had, named)


def _exports(words: str, names: set[str], named: Callable[[str], str]) -> Iterator[str]:
    if names:
        yield f"{words} {named(min(names))}{_more(len(names) - 1, 'symbol')}"


def _more(count: int, kind: str) -> str:
    return f" (and {count} more {kind}{'s' * (count != 1)})" if count else ""
