"""What an extension compiles and links against, read from a torch as it lies installed.

Of headers it is their bytes, of libraries only what they export: after a change inside of torch an
extension is what it was. RECORD has the digest of each file; where a torch came without one (conda,
a system package) the headers are read, and libraries are known by size and time.

Whether strings are those of C++11 is seen in the parameters of c10's own functions: torch's CMake
files said it once (2.5) and do not any more (2.14), and a wheel of the older ABI (PyPI's 2.5.1)
exports 213 names with `__cxx11` out of the libstdc++ that was linked into it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

from tasks.core.deps_model import Deps
from tasks.core.digest import canonical, sha256_text
from tasks.core.errors import BadArtifactError, BuildError
from tasks.core.model import TorchFound
from tasks.knowledge import cppextension
from tasks.stages import surfaces
from tasks.stages.wheel.job import Parts, Reading, Surface
from tasks.system import files, manifests
from tasks.system.voice import tick
from tasks.wheels.binaries import symbols
from tasks.wheels.files import recordfile, wheelfile
from tasks.wheels.linking.values import Exported, ExportedBy

_READER = 1  # raised where symbols.exported comes to tell another thing of a library
# The last has the flags that cpp_extension compiles with
_HEADERS = ("torch/include/", "torch/share/cmake/", f"torch/{cppextension.PLACE}")
# Of what CppExtension and CUDAExtension link; .lib are Windows' import libraries
_LINKED = re.compile(
    r"torch/lib/(?:lib)?(?:c10(?:_cuda)?|torch(?:_cpu|_python|_cuda\w*)?)"
    r"\.(?:so(?:\.[\d.]+)?|dylib|lib)"
)
_C10 = re.compile(r"torch/lib/libc10\.so(?:\.[\d.]+)?")
_OF_C10 = ("_ZN3c10", "_ZNK3c10")


def surface(found: TorchFound, deps: Deps, reading: Reading) -> Surface:
    """The surface of an installed torch; its parts are kept for people.

    Raises `BadArtifactError` where a library cannot be read.
    """
    tick("looking at what extensions compile and link against")
    folder = Path(found.folder)
    listed = _listed(folder)
    headers = {name: digest for name, digest in listed.items() if name.startswith(_HEADERS)}
    libraries = {name: digest for name, digest in listed.items() if _LINKED.fullmatch(name)}
    names = cache(lambda name: _names(folder.parent / name))
    exported = _exported(folder.parent, libraries, names, reading)
    made = Surface(
        release=found.version.partition("+")[0],
        cuda=found.cuda,
        python_tag="cp" + "".join(deps.python_version.split(".")[:2]),
        headers=_digest(headers),
        symbols=_digest({name: one.digest for name, one in exported.items()}),
        cxx11_abi=next((exported[name].cxx11_abi for name in exported if _C10.match(name)), None),
        cxx_standard=_standard(folder) or reading.cxx_standard,
        identity=deps.identity,
    )
    if not surfaces.known(reading.surfaces, made.name):
        parts = Parts(made, headers, {name: names(name) or () for name in libraries})
        surfaces.keep(reading.surfaces, parts)
    return made


def _listed(folder: Path) -> Mapping[str, str]:
    """Files and their digests, by RECORD where it lists the libraries."""
    recorded = wheelfile.installed_record(folder.parent, "torch")
    if any(_LINKED.fullmatch(name) for name in recorded):
        return recorded
    return dict(_looked_at(folder))


def _looked_at(folder: Path) -> Iterator[tuple[str, str]]:
    flags = folder / cppextension.PLACE
    for place in (folder / "include", folder / "share" / "cmake", folder / "lib", flags):
        for path in sorted(place.rglob("*")) or [place]:
            name = path.relative_to(folder.parent).as_posix()
            if not path.is_file():
                continue
            if name.startswith(_HEADERS):
                yield name, recordfile.encoded(bytes.fromhex(files.artifact(path).sha256))
            elif _LINKED.fullmatch(name):
                found = path.stat()
                yield name, f"{path.name}:{found.st_size}:{found.st_mtime_ns}"


def _exported(
    site: Path,
    libraries: Mapping[str, str],
    names: Callable[[str], tuple[str, ...] | None],
    reading: Reading,
) -> dict[str, Exported]:
    """What each library exports; those that the last torch had in the same bytes are not read."""
    before = _known(reading)
    found = {
        name: before[digest] if digest in before else _judged(site / name, names(name))
        for name, digest in libraries.items()
    }
    kept = {libraries[name]: one for name, one in found.items() if libraries[name]}
    if kept != before:
        manifests.publish(reading.symbols, ExportedBy(_READER, kept))
    return found


def _known(reading: Reading) -> Mapping[str, Exported]:
    try:
        before = manifests.read(reading.symbols, ExportedBy)
    except BuildError:
        return {}
    return before.libraries if before.reader == _READER else {}


def _judged(path: Path, names: tuple[str, ...] | None) -> Exported:
    if names is None:  # a format that is not read
        return Exported(files.artifact(path).sha256, None)
    return Exported(sha256_text("\n".join(names)), _cxx11_abi(names))


def _names(path: Path) -> tuple[str, ...] | None:
    try:
        names = symbols.exported(path)
    except OSError as error:
        raise BadArtifactError(
            f"a library of this torch cannot be opened: {error.strerror}",
            where=str(path),
            todo="install this torch again",
        ) from error
    return None if names is None else tuple(sorted(names))


def _cxx11_abi(names: tuple[str, ...]) -> bool | None:
    """`torchCheckFail(…, std::string const&)` is mangled `…RKNSt7__cxx1112basic_string…`, and of
    the older ABI `…RKSs`.
    """
    own = [name for name in names if name.startswith(_OF_C10)]
    if any("St7__cxx11" in name for name in own):
        return True
    return False if any(name.endswith("Ss") for name in own) else None


def _standard(folder: Path) -> int | None:
    try:
        text = (folder / cppextension.PLACE).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return cppextension.parse(text).standard


def _digest(of: Mapping[str, str]) -> str:
    return sha256_text(canonical(of))
