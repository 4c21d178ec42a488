"""Explain what changed in torch's ABI fingerprint since an extension was built."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from tasks.core.canonical_json import convert_to_json, find_changes
from tasks.core.input_changes import describe_changes
from tasks.stages import abi_fingerprint_store_io
from tasks.stages.extensions.model import BuiltExtension, ExtensionJob
from tasks.stages.wheel.model import AbiDetails, AbiFingerprint
from tasks.system import manifests
from tasks.wheels import exported_symbols_io

_FACT_NAMES = {
    "release": "torch",
    "cuda": "CUDA",
    "python_tag": "Python",
    "cxx11_abi": "_GLIBCXX_USE_CXX11_ABI",
    "cxx_standard": "C++ standard",
}


def find_abi_differences(
    before: AbiDetails, after: AbiDetails, format_symbol: Callable[[str], str]
) -> Iterator[str]:
    """Yield a line for each ABI difference that requires a rebuild of extensions."""
    old, new = (
        convert_to_json(replace(details.surface, headers="", symbols="", identity=""))
        for details in (before, after)
    )
    yield from describe_changes(find_changes(old, new), _FACT_NAMES)
    if (before.surface.release, before.surface.cuda) == (after.surface.release, after.surface.cuda):
        yield from _compare_headers(before.headers, after.headers)
        for library in sorted({*before.symbols, *after.symbols}):
            name, was_there = library.rpartition("/")[2], library in before.symbols
            if not was_there or library not in after.symbols:
                yield f"{name} was {'removed' if was_there else 'added'}"
                continue
            exported, now_exported = set(before.symbols[library]), set(after.symbols[library])
            removed, added = exported - now_exported, now_exported - exported
            for verb, symbols in {"no longer exports": removed, "now exports": added}.items():
                if symbols:
                    more = _format_more(len(symbols) - 1, "symbol")
                    yield f"{name} {verb} {format_symbol(min(symbols))}{more}"


def _compare_headers(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    verbs = {
        "changed": [name for name in before if before[name] != after.get(name, before[name])],
        "was removed": before.keys() - after.keys(),
        "was added": after.keys() - before.keys(),
    }
    changes = [(name, verb) for verb, names in verbs.items() for name in sorted(names)]
    if changes:
        (first, verb), *rest = changes
        are_headers = all(name.startswith("torch/include/") for name, _ in rest)
        yield f"{first} {verb}{_format_more(len(rest), 'header' if are_headers else 'file')}"


def _format_more(count: int, kind: str) -> str:
    return f" (and {count} more {kind}{'s' * (count != 1)})" if count else ""


def list_changes(job: ExtensionJob) -> tuple[str, ...]:
    """Return a line for each ABI change since the last build, or () if the changes are unknown."""
    extension = manifests.find_manifest(job.manifest, BuiltExtension)
    path = job.layout.compute_manifest_path("surface")
    surface = manifests.find_manifest(path, AbiFingerprint)
    if not extension or not surface:
        return ()
    if extension.surface == surface.name:
        return ("the environment was created again",)
    before, after = (
        abi_fingerprint_store_io.read_stored_parts(job.layout.abi_fingerprints, name)
        for name in (extension.surface, surface.name)
    )

    def format_symbol(symbol: str) -> str:
        # The parameters of a long symbol are left out
        demangled, short = exported_symbols_io.demangle_symbol(symbol)
        return demangled if len(demangled) <= 80 or demangled == short else f"{short}(…)"

    return tuple(find_abi_differences(before, after, format_symbol)) if before and after else ()
