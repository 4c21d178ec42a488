"""Explain what changed in torch's ABI fingerprint since an extension was built."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from tasks.core.canonical_json import convert_to_json, find_changes
from tasks.core.errors import TorchyardError
from tasks.core.input_changes import describe_changes
from tasks.stages import abi_fingerprint_store_io
from tasks.stages.extensions.model import BuiltExtension, ExtensionJob
from tasks.stages.wheel.model import AbiDetails, AbiFingerprint
from tasks.system import manifests
from tasks.wheels import exported_symbols_io

_INCLUDE = "torch/include/"
_FACT_NAMES = {
    "release": "torch",
    "cuda": "CUDA",
    "python_tag": "Python",
    "cxx11_abi": "_GLIBCXX_USE_CXX11_ABI",
    "cxx_standard": "C++ standard",
}


def find_abi_differences(
    before: AbiDetails, after: AbiDetails, named: Callable[[str], str]
) -> Iterator[str]:
    """Yield the differences that require a rebuild of an extension.

    For another release or CUDA version, the resulting differences of headers and symbols are
    omitted. `named` returns the readable name of a symbol.
    """
    yield from describe_changes(
        find_changes(
            convert_to_json(_remove_digests(before.surface)),
            convert_to_json(_remove_digests(after.surface)),
        ),
        _FACT_NAMES,
    )
    if (before.surface.release, before.surface.cuda) == (after.surface.release, after.surface.cuda):
        yield from _compare_headers(before.headers, after.headers)
        for library in sorted({*before.symbols, *after.symbols}):
            yield from _compare_symbols(library, before.symbols, after.symbols, named)


def _remove_digests(surface: AbiFingerprint) -> AbiFingerprint:
    return replace(surface, headers="", symbols="", identity="")


def _compare_headers(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    verbs = {
        "changed": [name for name in before if before[name] != after.get(name, before[name])],
        "is gone": before.keys() - after.keys(),
        "is new": after.keys() - before.keys(),
    }
    changes = [(name, verb) for verb, names in verbs.items() for name in sorted(names)]
    if changes:
        (first, verb), *rest = changes
        yield f"{first} {verb}{_format_more(len(rest), _name_file_kind(name for name, _ in rest))}"


def _name_file_kind(names: Iterator[str]) -> str:
    return "header" if all(name.startswith(_INCLUDE) for name in names) else "file"


def _compare_symbols(
    library: str,
    before: Mapping[str, Sequence[str]],
    after: Mapping[str, Sequence[str]],
    named: Callable[[str], str],
) -> Iterator[str]:
    name = library.rpartition("/")[2]
    old_symbols, new_symbols = set(before.get(library, ())), set(after.get(library, ()))
    if library not in after:
        yield f"{name} is gone"
    elif library not in before:
        yield f"{name} is new"
    else:
        yield from _format_exports(f"{name} no longer exports", old_symbols - new_symbols, named)
        yield from _format_exports(f"{name} now exports", new_symbols - old_symbols, named)


def _format_exports(words: str, names: set[str], named: Callable[[str], str]) -> Iterator[str]:
    if names:
        yield f"{words} {named(min(names))}{_format_more(len(names) - 1, 'symbol')}"


def _format_more(count: int, kind: str) -> str:
    return f" (and {count} more {kind}{'s' * (count != 1)})" if count else ""


_SYMBOL_WIDTH = 80  # longest symbol that is shown with its parameters


def list_changes(job: ExtensionJob) -> tuple[str, ...]:
    """Return a line for each kind of change, empty if the previous details are not known."""
    try:
        built, current = (
            manifests.read_manifest(job.manifest, BuiltExtension),
            manifests.read_manifest(job.abi_manifest, AbiFingerprint),
        )
    except TorchyardError:
        return ()
    if built.surface == current.name:
        return ("the environment was made anew",)
    before, after = (
        abi_fingerprint_store_io.read_stored_parts(job.abi_folder, name)
        for name in (built.surface, current.name)
    )
    return tuple(find_abi_differences(before, after, _format_symbol)) if before and after else ()


def _format_symbol(symbol: str) -> str:
    """Return `c10::detail::torchCheckFail(…)`, or a short symbol with its parameters."""
    demangled, short = exported_symbols_io.demangle_symbol(symbol)
    return demangled if len(demangled) <= _SYMBOL_WIDTH or demangled == short else f"{short}(…)"
