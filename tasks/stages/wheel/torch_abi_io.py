"""Read the ABI fingerprint of an installed torch: what an extension compiles and links against.

Headers count by content, libraries only by exported symbols: a changed function body in torch
requires no rebuild of extensions.
"""

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

from tasks.core.canonical_json import compute_text_sha256, format_canonical_json
from tasks.core.deps_model import DepsManifest
from tasks.core.errors import BadArtifactError
from tasks.core.model import InstalledTorch
from tasks.knowledge import cpp_extension
from tasks.stages import abi_fingerprint_store_io
from tasks.stages.wheel.model import AbiDetails, AbiFingerprint, AbiReadOptions
from tasks.system import files, manifests
from tasks.system.output import show_progress
from tasks.wheels import exported_symbols_io, wheel_archive_io, wheel_record
from tasks.wheels.library_linkage import ExportedSymbols, ExportedSymbolsCache

_SYMBOL_READER_VERSION = 1  # increment when the result of read_exported_symbols changes
_FLAGS_FILE = f"torch/{cpp_extension.CPP_EXTENSION_PATH}"
_HEADER_PREFIXES = ("torch/include/", "torch/share/cmake/", _FLAGS_FILE)
# The libraries that CppExtension and CUDAExtension link; .lib are Windows' import libraries
_LINKED_LIBRARY = re.compile(
    r"torch/lib/(?:lib)?(?:c10(?:_cuda)?|torch(?:_cpu|_python|_cuda\w*)?)"
    r"\.(?:so(?:\.[\d.]+)?|dylib|lib)"
)
_C10_LIBRARY = re.compile(r"torch/lib/libc10\.so(?:\.[\d.]+)?")
_C10_SYMBOLS = ("_ZN3c10", "_ZNK3c10")


def read_abi_fingerprint(
    found: InstalledTorch, deps: DepsManifest, reading: AbiReadOptions
) -> AbiFingerprint:
    """Return the ABI fingerprint of an installed torch, and store its headers and symbols."""
    show_progress("reading the headers and libraries that extensions use")
    folder = Path(found.folder)
    digests = wheel_archive_io.read_installed_record(folder.parent, "torch")
    if not any(_LINKED_LIBRARY.fullmatch(name) for name in digests):
        digests = dict(_scan_torch_files(folder))
    headers = {name: digests[name] for name in digests if name.startswith(_HEADER_PREFIXES)}
    libraries = {name: digests[name] for name in digests if _LINKED_LIBRARY.fullmatch(name)}
    names = cache(lambda name: _read_symbol_names(folder.parent / name))
    exported = _read_exports(folder.parent, libraries, names, reading)
    c10_abis = (exported[name].cxx11_abi for name in exported if _C10_LIBRARY.match(name))
    standard = reading.cxx_standard
    with contextlib.suppress(OSError):
        script = folder / cpp_extension.CPP_EXTENSION_PATH
        text = script.read_text(encoding="utf-8", errors="replace")
        standard = cpp_extension.parse_cpp_extension(text).standard or standard
    symbols = {name: library.digest for name, library in exported.items()}
    fingerprint = AbiFingerprint(
        release=found.version.partition("+")[0],
        cuda=found.cuda,
        python_tag="cp" + "".join(deps.python_version.split(".")[:2]),
        headers=compute_text_sha256(format_canonical_json(headers)),
        symbols=compute_text_sha256(format_canonical_json(symbols)),
        cxx11_abi=next(c10_abis, None),
        cxx_standard=standard,
        identity=deps.identity,
    )
    if not abi_fingerprint_store_io.has_stored_parts(reading.abi_folder, fingerprint.name):
        details = AbiDetails(fingerprint, headers, {name: names(name) or () for name in libraries})
        abi_fingerprint_store_io.store_fingerprint_parts(reading.abi_folder, details)
    return fingerprint


def _scan_torch_files(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and the digest of each header and library of a torch without RECORD.

    conda installs torch without RECORD. For a library, the name, size and modification time replace
    the digest.
    """
    flags = folder / cpp_extension.CPP_EXTENSION_PATH
    for place in (folder / "include", folder / "share" / "cmake", folder / "lib", flags):
        for path in sorted(place.rglob("*")) or [place]:
            name = path.relative_to(folder.parent).as_posix()
            if not path.is_file():
                continue
            if name.startswith(_HEADER_PREFIXES):
                sha256 = files.read_artifact(path).sha256
                yield name, wheel_record.encode_digest(bytes.fromhex(sha256))
            elif _LINKED_LIBRARY.fullmatch(name):
                status = path.stat()
                yield name, f"{path.name}:{status.st_size}:{status.st_mtime_ns}"


def _read_exports(
    site: Path,
    libraries: Mapping[str, str],
    names: Callable[[str], tuple[str, ...] | None],
    reading: AbiReadOptions,
) -> dict[str, ExportedSymbols]:
    """Return the exported symbols of each library. `names` reads a library that is not cached."""
    before = manifests.find_manifest(reading.symbols, ExportedSymbolsCache)
    cached = before.libraries if before and before.reader == _SYMBOL_READER_VERSION else {}
    exported = {}
    for name, digest in libraries.items():
        if digest in cached:
            exported[name] = cached[digest]
        elif (symbols := names(name)) is None:  # an unsupported library format
            exported[name] = ExportedSymbols(files.read_artifact(site / name).sha256, None)
        else:
            sha256 = compute_text_sha256("\n".join(symbols))
            exported[name] = ExportedSymbols(sha256, _detect_cxx11_abi(symbols))
    by_digest = {libraries[name]: symbols for name, symbols in exported.items() if libraries[name]}
    if by_digest != cached:
        content = ExportedSymbolsCache(_SYMBOL_READER_VERSION, by_digest)
        manifests.write_manifest(reading.symbols, content)
    return exported


def _read_symbol_names(path: Path) -> tuple[str, ...] | None:
    """Return the sorted names of the exported symbols, or None for an unsupported format."""
    try:
        names = exported_symbols_io.read_exported_symbols(path)
    except OSError as error:
        message = f"cannot open this library of torch: {error.strerror}"
        raise BadArtifactError(message, location=str(path), hint="install torch again") from error
    return None if names is None else tuple(sorted(names))


def _detect_cxx11_abi(names: tuple[str, ...]) -> bool | None:
    """Return True for the C++11 ABI, False for the older ABI, `None` if unknown.

    `torchCheckFail(…, std::string const&)` is mangled `…RKNSt7__cxx1112basic_string…` with the
    C++11 ABI and `…RKSs` with the older one. Names outside c10 are ignored, because a wheel of the
    older ABI exports names with `__cxx11` from a linked libstdc++.
    """
    c10_symbols = [name for name in names if name.startswith(_C10_SYMBOLS)]
    if any("St7__cxx11" in name for name in c10_symbols):
        return True
    return False if any(name.endswith("Ss") for name in c10_symbols) else None
