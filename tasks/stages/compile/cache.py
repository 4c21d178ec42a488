"""CMake's cache against what is asked for now: what CMake would ignore is refused.

What was asked for is kept in the build folder, because the cache alone cannot tell a setting that a
person changed from one that CMake itself turned off for want of a library.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from tasks.digest import canonical
from tasks.effects import files, manifests
from tasks.errors import BuildError
from tasks.stages.compile.backends import Backend
from tasks.stages.compile.forwarding import ALIASES, is_forwarded

# Read by CMake only when it configures a folder for the first time, and cached under other names.
_FIRST_TIME = (
    *("CC", "CXX", "CUDACXX", "CUDAHOSTCXX", "CFLAGS", "CXXFLAGS", "CUDAFLAGS", "LDFLAGS"),
    *("CUDA_HOME", "TORCH_CUDA_ARCH_LIST", "TORCH_NVCC_FLAGS"),
)
_KEYS = {
    "CMAKE_BUILD_TYPE": "build.type",
    "BLAS": "build.blas",
    "CUDA_HOME": "toolkit",
    "CUDACXX": "toolkit",
    "TORCH_CUDA_ARCH_LIST": "target.gpus",
}
_ENTRY = re.compile(r'"?(?P<name>[^":=]+)"?:(?P<type>\w+)=(?P<value>.*)')
_ON = ("1", "ON", "YES", "TRUE", "Y")
_OFF = ("0", "OFF", "NO", "FALSE", "N")


@dataclass(frozen=True)
class Request:
    """What a build folder was configured for: variables by name.

    `defaults` are CMake's own values of those that were first asked for in a configured folder.
    """

    variables: Mapping[str, str]
    defaults: Mapping[str, str] = field(default_factory=dict)


def read_cache(folder: PurePath) -> dict[str, str]:
    """The entries of CMakeCache.txt by name; empty where configuring never finished."""
    cache = Path(folder) / "CMakeCache.txt"
    if not cache.is_file() or not (Path(folder) / "build.ninja").is_file():
        return {}
    lines = cache.read_text(encoding="utf-8", errors="replace").splitlines()
    found = (_ENTRY.fullmatch(line) for line in lines if not line.startswith(("#", "//")))
    return {entry["name"]: entry["value"] for entry in found if entry}


def drop_unfinished(folder: PurePath) -> None:
    """Remove the cache of a first configure that failed: the next would take its values."""
    if not read_cache(folder):
        (Path(folder) / "CMakeCache.txt").unlink(missing_ok=True)


def refuse_ignored(backend: Backend, folder: PurePath, wanted: Mapping[str, str]) -> None:
    """Raise a `BuildError` naming each new value that the folder would not take; change nothing."""
    cache = read_cache(folder)
    if not cache:
        return
    lines = [
        f"{key(name)}: configured with {before}, asked for {after}"
        for name, before, after in _changed(backend, cache, _before(folder, cache, wanted), wanted)
    ]
    if lines:
        raise BuildError(
            f"CMake would ignore what changed in the settings: {'; '.join(lines)}",
            where=str(folder),
            todo="set them back, or remove that folder, which compiles everything again: "
            f"python -c \"import shutil; shutil.rmtree(r'{folder}')\"",
        )


def remember(folder: PurePath, wanted: Mapping[str, str]) -> None:
    """Note in the build folder what it is about to be configured for."""
    cache = read_cache(folder)
    before = _before(folder, cache, wanted)
    own = {name: cache[name] for name in wanted if name in cache and name not in before.variables}
    request = Request(wanted, {**before.defaults, **own} if cache else {})
    files.write_atomic(_record(folder), canonical(request))


def key(name: str) -> str:
    """The dotted key of the settings that a variable comes from."""
    if name in _KEYS:
        return _KEYS[name]
    return f"build.{'flags' if name.startswith(('USE_', 'BUILD_')) else 'env'}.{name}"


def _changed(
    backend: Backend, cache: Mapping[str, str], before: Request, wanted: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """Name, old and new value of what moved since the folder was configured."""
    for name in sorted({*before.variables, *wanted}):
        new, old, held = wanted.get(name, ""), before.variables.get(name, ""), _held(cache, name)
        is_new = is_forwarded(name) and name not in before.variables
        if held is None and name not in _FIRST_TIME and not is_new:
            continue
        default = before.defaults.get(name, "") if name not in wanted else new
        kept = name not in wanted or backend.ignores(name)  # no backend takes a value back
        if kept and not _same(old, new) and (held is None or not _same(held, default)):
            yield name, old or held or "nothing", new or "nothing"


def _held(cache: Mapping[str, str], name: str) -> str | None:
    """The cached value, under the name that CMake has it by."""
    return cache.get(name, cache.get(ALIASES.get(name, "")))


def _same(one: str, other: str) -> bool:
    return _plain(one) == _plain(other)


def _plain(value: str) -> str:
    upper = value.upper()
    if upper in _ON:
        return "ON"
    return "OFF" if upper in _OFF else value


def _before(folder: PurePath, cache: Mapping[str, str], wanted: Mapping[str, str]) -> Request:
    """What the folder was configured for; where a person did that, the cache tells."""
    record = _record(folder)
    if record.exists():
        return manifests.read(record, Request)
    held = {name: _held(cache, name) for name in wanted}
    return Request({name: wanted[name] if text is None else text for name, text in held.items()})


def _record(folder: PurePath) -> Path:
    return Path(folder) / "torchyard-request.json"
