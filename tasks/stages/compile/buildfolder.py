"""A CMake folder as it is: its cache, the note of what it was configured from, and whose it is.

The note lies in the folder itself, so that it goes when the folder goes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePath

from tasks.core.digest import canonical
from tasks.core.errors import BuildError
from tasks.knowledge.facts import FolderRule
from tasks.stages.compile.decision import Decision, missing
from tasks.stages.compile.fingerprint import Fingerprint, entries, expected, rule_for, setting
from tasks.system import files, manifests
from tasks.system.hardware import toolchain

_ENTRY = re.compile(r'"?(?P<name>[^":=]+)"?:(?P<type>\w+)=(?P<value>.*)')
_NOTE = "torchyard-request.json"
# What the cache itself tells of a folder that a person, or another tool, configured.
_TOLD = {
    "toolchain.cc": "CMAKE_C_COMPILER",
    "toolchain.cxx": "CMAKE_CXX_COMPILER",
    "toolchain.nvcc": "CMAKE_CUDA_COMPILER",
    "toolchain.cudahost": "CUDA_HOST_COMPILER",
    "toolchain.cmake": "CMAKE_CACHE_MAJOR_VERSION",
    "toolchain.python": "Python_EXECUTABLE",
    "toolchain.ninja": "CMAKE_MAKE_PROGRAM",
    "toolchain.tree": "CMAKE_HOME_DIRECTORY",
}


def read_cache(folder: PurePath) -> dict[str, str]:
    """The entries of CMakeCache.txt by name; empty where configuring never finished."""
    cache = Path(folder) / "CMakeCache.txt"
    if not cache.is_file() or not (Path(folder) / "build.ninja").is_file():
        return {}
    return _entries(cache)


def _entries(cache: Path) -> dict[str, str]:
    lines = cache.read_text(encoding="utf-8", errors="replace").splitlines()
    found = (_ENTRY.fullmatch(line) for line in lines if not line.startswith(("#", "//")))
    return {entry["name"]: entry["value"] for entry in found if entry}


def configured_from(
    folder: PurePath, cache: Mapping[str, str], rules: tuple[FolderRule, ...], wanted: Fingerprint
) -> Fingerprint:
    """What the folder was configured from; what no note tells, its cache does."""
    told = {name: cache.get(entry, "") for name, entry in _TOLD.items()}
    known = {name: toolchain.identity(name, value) for name, value in told.items() if value}
    if has_note(folder):
        note = manifests.read(_note(folder), Fingerprint)
        return replace(note, toolchain={**known, **note.toolchain})
    return Fingerprint(dict(_held(cache, rules, wanted)), known)


def _held(
    cache: Mapping[str, str], rules: tuple[FolderRule, ...], wanted: Fingerprint
) -> Iterator[tuple[str, str]]:
    """The values of what is asked for; of one that CMake does not cache nothing is known, and it is
    taken for what is wanted.
    """
    for name, value in wanted.variables.items():
        rule = rule_for(rules, name)
        names = entries(rule, name)
        if not names:
            yield name, value
        elif taken := cache.get(names[0]):
            yield name, value if not rule.defines and value in taken else taken


def has_note(folder: PurePath) -> bool:
    """Whether torchyard configured it, or used it, before."""
    return _note(folder).exists()


def begin(folder: PurePath, before: Fingerprint, wanted: Fingerprint) -> None:
    """Note that a configure is under way, before CMake changes anything."""
    files.write_atomic(_note(folder), canonical(replace(before, pending=wanted.variables)))


def prepare(folder: PurePath) -> None:
    """Before a first configure: a folder that is new, or empty, is marked as ours; what one of ours
    left that did not end is dropped, since CMake would take its values.
    """
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    if not any(child for child in path.iterdir() if not child.name.startswith(".lock")):
        files.mark(path)
    cache = path / "CMakeCache.txt"
    if files.is_marked(path):
        cache.unlink(missing_ok=True)
    elif cache.is_file() and _entries(cache).get("CMAKE_GENERATOR", "Ninja") != "Ninja":
        raise _not_ours(folder, f"generator {_entries(cache)['CMAKE_GENERATOR']} → Ninja")


def wipe(folder: PurePath, decision: Decision) -> None:
    """Empty a folder that torchyard made; a `BuildError` with the remedy where it is another's."""
    if not files.is_marked(folder):
        raise _not_ours(folder, str(decision).partition(": ")[2])
    # without Ninja's log every object counts as old, so that one which an interruption leaves is
    # never taken for the new compiler's
    files.empty_owned(folder, first=(".ninja_log", ".ninja_deps", "CMakeCache.txt"))


def _not_ours(folder: PurePath, change: str) -> BuildError:
    return BuildError(
        "this build folder was made by hand or by another tool, and what changed needs a new one: "
        f"{change}",
        where=str(folder),
        todo="set it back, or remove the folder, which compiles everything again: "
        f"python -c \"import shutil; shutil.rmtree(r'{folder}')\"",
    )


def require(folder: PurePath, rules: tuple[FolderRule, ...], wanted: Fingerprint) -> None:
    """Raise a `BuildError` naming each value that was asked for and did not reach the cache."""
    cache = read_cache(folder)
    lacking = missing(rules, cache, wanted)
    if lacking:
        named = "; ".join(
            f"{setting(change.name)}: asked for {change.before}, and CMake has "
            f"{change.after or 'nothing'}"
            for change in lacking
        )
        raise BuildError(
            f"CMake did not take what was asked for: {named}",
            where=str(Path(folder) / "CMakeCache.txt"),
            todo="ask for what it has, or install what it misses: the log of compile tells why",
        )


def remember(
    folder: PurePath, rules: tuple[FolderRule, ...], before: Fingerprint, wanted: Fingerprint
) -> None:
    """Note in the folder what it is configured from now; tools that are not used now stay known."""
    cache = read_cache(folder)
    held = {entry: cache[entry] for _, entry, _ in expected(rules, wanted) if entry in cache}
    tools = {**before.toolchain, **wanted.toolchain}
    note = replace(wanted, toolchain=tools, held=held)
    files.write_atomic(_note(folder), canonical(note))


def _note(folder: PurePath) -> Path:
    return Path(folder) / _NOTE
