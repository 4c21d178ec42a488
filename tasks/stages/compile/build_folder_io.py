"""Read the CMake cache of a build folder, and record the values of the last configure."""

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path, PurePath

from tasks.core.canonical_json import format_canonical_json
from tasks.core.errors import TorchyardError
from tasks.knowledge.facts import FolderRule
from tasks.stages.compile.build_folder_decision import (
    ConfigureFingerprint,
    FolderDecision,
    find_folder_rule,
    format_setting_name,
    list_cache_entries,
    list_expected_entries,
    list_missing_values,
)
from tasks.system import files, manifests
from tasks.system.hardware import toolchain

_CACHE_ENTRY = re.compile(r'"?(?P<name>[^":=]+)"?:(?P<type>\w+)=(?P<value>.*)')
# The cache entry of each tool, for a folder that the user or another program configured
_TOOL_ENTRIES = {
    "toolchain.cc": "CMAKE_C_COMPILER",
    "toolchain.cxx": "CMAKE_CXX_COMPILER",
    "toolchain.nvcc": "CMAKE_CUDA_COMPILER",
    "toolchain.cudahost": "CUDA_HOST_COMPILER",
    "toolchain.cmake": "CMAKE_CACHE_MAJOR_VERSION",
    "toolchain.python": "Python_EXECUTABLE",
    "toolchain.ninja": "CMAKE_MAKE_PROGRAM",
    "toolchain.tree": "CMAKE_HOME_DIRECTORY",
}


def read_cmake_cache(folder: PurePath, *, unfinished: bool = False) -> dict[str, str]:
    """Return the entries of CMakeCache.txt, or {} if no configure has finished.

    With `unfinished`, the entries of an unfinished configure are returned too.
    """
    cache = Path(folder) / "CMakeCache.txt"
    if not cache.is_file() or not (unfinished or (Path(folder) / "build.ninja").is_file()):
        return {}
    lines = cache.read_text(encoding="utf-8", errors="replace").splitlines()
    matches = (_CACHE_ENTRY.fullmatch(line) for line in lines if not line.startswith(("#", "//")))
    return {entry["name"]: entry["value"] for entry in matches if entry}


def read_configured_fingerprint(
    folder: PurePath,
    cache: Mapping[str, str],
    rules: tuple[FolderRule, ...],
    requested: ConfigureFingerprint,
) -> ConfigureFingerprint:
    """Return the variables and tools with which the folder was configured.

    If torchyard did not configure the folder, they are read from CMake's cache. Variables that
    CMake does not cache are assumed to have the requested values.
    """
    tools = {
        name: toolchain.resolve_tool_identity(name, value)
        for name, entry in _TOOL_ENTRIES.items()
        if (value := cache.get(entry, ""))
    }
    if (path := resolve_note_path(folder)).exists():
        note = manifests.read_manifest(path, ConfigureFingerprint)
        return replace(note, toolchain={**tools, **note.toolchain})
    variables = {}
    for name, value in requested.variables.items():
        rule = find_folder_rule(rules, name)
        names = list_cache_entries(rule, name)
        if not names:
            variables[name] = value
        elif cached := cache.get(names[0]):
            variables[name] = value if not rule.defines and value in cached else cached
    return ConfigureFingerprint(variables, tools)


def resolve_note_path(folder: PurePath) -> Path:
    """Return the path of the record of the last configure by torchyard, which may not exist."""
    return Path(folder) / "torchyard-request.json"


def write_pending_note(
    folder: PurePath, before: ConfigureFingerprint, requested: ConfigureFingerprint
) -> None:
    """Record that a configure with the requested variables begins."""
    note = replace(before, pending=requested.variables)
    files.write_atomic(resolve_note_path(folder), format_canonical_json(note))


def prepare_build_folder(folder: PurePath) -> None:
    """Prepare a folder for a first configure.

    A new or empty folder gets a marker file, which allows torchyard to delete the content later. In
    a folder with this file, an old CMakeCache.txt is removed, because CMake would reuse its values.
    """
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    if not any(entry for entry in path.iterdir() if not entry.name.startswith(".lock")):
        files.mark_owned(path)
    generator = read_cmake_cache(folder, unfinished=True).get("CMAKE_GENERATOR", "Ninja")
    if files.is_marked(path):
        (path / "CMakeCache.txt").unlink(missing_ok=True)
    elif generator != "Ninja":
        raise _create_unmanaged_error(folder, f"generator {generator} → Ninja")


def wipe_build_folder(folder: PurePath, decision: FolderDecision) -> None:
    """Empty a build folder, or raise `TorchyardError` if torchyard did not create the folder."""
    if not files.is_marked(folder):
        raise _create_unmanaged_error(folder, str(decision).partition(": ")[2])
    # remove Ninja's log first: if the wipe is interrupted, Ninja compiles all remaining objects
    # again instead of reusing objects of the old compiler
    files.empty_owned(folder, first=(".ninja_log", ".ninja_deps", "CMakeCache.txt"))


def _create_unmanaged_error(folder: PurePath, change: str) -> TorchyardError:
    return TorchyardError(
        f"a change needs an empty build folder, but torchyard did not create this one: {change}",
        location=str(folder),
        hint="undo the change, or remove the folder (everything is then compiled again): "
        f"python -c \"import shutil; shutil.rmtree(r'{folder}')\"",
    )


def require_cmake_values(
    folder: PurePath, rules: tuple[FolderRule, ...], requested: ConfigureFingerprint
) -> None:
    """Raise `TorchyardError` with the requested values that the CMake cache lacks, if any."""
    if details := [
        f"{format_setting_name(one.name)} is {one.after or 'nothing'} instead of {one.before}"
        for one in list_missing_values(rules, read_cmake_cache(folder), requested)
    ]:
        raise TorchyardError(
            f"CMake did not apply these settings: {'; '.join(details)}",
            location=str(Path(folder) / "CMakeCache.txt"),
            hint="find the cause in the log of the compile stage. Then change the setting, or "
            "install what CMake did not find",
        )


def write_configure_note(
    folder: PurePath,
    rules: tuple[FolderRule, ...],
    before: ConfigureFingerprint,
    requested: ConfigureFingerprint,
) -> None:
    """Record the variables and tools of a finished configure."""
    cache = read_cmake_cache(folder)
    entries = (entry for _, _, entry, _ in list_expected_entries(rules, requested))
    values = {entry: cache[entry] for entry in entries if entry in cache}
    tools = {**before.toolchain, **requested.toolchain}
    note = replace(requested, toolchain=tools, held=values)
    files.write_atomic(resolve_note_path(folder), format_canonical_json(note))


_LIBRARY_NAME = re.compile(r".+\.(so(\.\d+)*|dll|dylib|a|lib|pyd)")
_SKIPPED_FOLDERS = {"CMakeFiles", "CMakeTmp"}
_TICK = 2_000_000_000  # ns: the coarsest resolution of a file system's clock


def compute_library_digest(folders: Iterable[PurePath], start: PurePath, cache: PurePath) -> str:
    """Return one sha256 of all libraries in the folders, with their paths relative to `start`.

    The file `cache` stores digests, so that an unchanged library is not read again.
    """
    old_digests, new_digests = {}, {}
    with contextlib.suppress(OSError, ValueError):
        old_digests = manifests.parse_json(Path(cache).read_bytes(), dict[str, tuple[str, str]])
    total = hashlib.sha256()
    paths = (
        path
        for folder in map(Path, folders)
        for path in folder.rglob("*")
        if _LIBRARY_NAME.fullmatch(path.name)
        and path.is_file()
        # CMake compiles libraries in these folders to test the compiler
        and _SKIPPED_FOLDERS.isdisjoint(path.relative_to(folder).parts)
    )
    for path in sorted(paths):
        name, status = Path(os.path.relpath(path, start)).as_posix(), path.stat()
        # not the inode's change time, which changes when the wheel stage creates hard links
        state = f"{status.st_size} {status.st_mtime_ns} {status.st_ino}"
        old_state, old_content = old_digests.get(str(path), ("", ""))
        content = old_content if state == old_state else files.read_artifact(path).sha256
        total.update(f"{name}\0{content}\n".encode())
        # a newer file could change again without a change of its size and modification time
        if time.time_ns() - status.st_mtime_ns >= _TICK:
            new_digests[str(path)] = (state, content)
    if new_digests != old_digests:
        files.write_atomic(Path(cache), json.dumps(new_digests))
    return total.hexdigest()
