"""The configure fingerprint of a build folder, and how its variables map to CMake cache entries.

The CMake cache does not show whether the user or CMake turned a setting off, or whether a compiler
was replaced under the same name. Therefore the requested values are stored as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from posixpath import normpath

from tasks.knowledge.facts import FolderRule

TOOL_PREFIX = "toolchain."  # of names that are not variables
_SETTING_NAMES = {
    "CMAKE_BUILD_TYPE": "build.type",
    "BLAS": "build.blas",
    "TORCH_CUDA_ARCH_LIST": "target.gpus",
    "toolchain.cc": "the C compiler",
    "toolchain.cxx": "the C++ compiler",
    "toolchain.nvcc": "the CUDA compiler",
    "toolchain.cudahost": "the host compiler of CUDA",
    "toolchain.cmake": "the major version of CMake",
    "toolchain.python": "the interpreter",
    "toolchain.python_version": "the version of Python",
    "toolchain.tree": "the source tree",
    "toolchain.ninja": "the Ninja of the folder",
    "toolchain.release": "the release of the tree",
    "unfinished": "the last configure",
}
_ABSOLUTE_PATH = re.compile(r"/|[A-Za-z]:[\\/]")
_DRIVE_PATH = re.compile(r"[A-Za-z]:[\\/]")
_ON_VALUES = ("1", "ON", "YES", "TRUE", "Y")
_OFF_VALUES = ("0", "OFF", "NO", "FALSE", "N")


@dataclass(frozen=True)
class ConfigureFingerprint:
    """The values that a folder is configured from.

    `toolchain` has the identity of each known tool, by `toolchain.cxx` and similar names. `held`
    are the resulting entries of CMakeCache.txt. `pending` are the variables of a configure that did
    not finish, or None if the last one did.
    """

    variables: Mapping[str, str]
    toolchain: Mapping[str, str] = field(default_factory=dict)
    held: Mapping[str, str] = field(default_factory=dict)
    pending: Mapping[str, str] | None = None


def find_folder_rule(rules: Iterable[FolderRule], name: str) -> FolderRule:
    """Return the first rule that matches; the last rule matches everything."""
    return next(rule for rule in rules if any(fnmatchcase(name, key) for key in rule.keys))


def list_cache_entries(rule: FolderRule, name: str) -> tuple[str, ...]:
    """Return the entries of CMakeCache.txt that hold the value of this variable."""
    return tuple(name if entry == "=" else entry for entry in rule.entries)


def list_expected_entries(
    rules: tuple[FolderRule, ...], requested: ConfigureFingerprint
) -> Iterator[tuple[str, str, str]]:
    """Yield name, entry and value of all that a reconfigure can set and the cache must hold."""
    for name, entry, value in _list_all_entries(rules, requested):
        if find_folder_rule(rules, name).effect == "reconfigure":
            yield name, entry, value


def build_cmake_definitions(
    rules: tuple[FolderRule, ...], requested: ConfigureFingerprint
) -> dict[str, str]:
    """Return the -D definitions for an empty folder, by cache entry."""
    return {
        entry: format_cmake_paths(value)
        for name, entry, value in _list_all_entries(rules, requested)
        if find_folder_rule(rules, name).defines
    }


def format_cmake_paths(value: str) -> str:
    """Return the value with forward slashes in absolute Windows paths.

    CMake writes values into generated files, where a backslash would escape the next character.
    """
    parts = value.split(";")
    return ";".join(part.replace("\\", "/") if _DRIVE_PATH.match(part) else part for part in parts)


def _list_all_entries(
    rules: tuple[FolderRule, ...], requested: ConfigureFingerprint
) -> Iterator[tuple[str, str, str]]:
    for name, value in sorted({**requested.toolchain, **requested.variables}.items()):
        for entry in list_cache_entries(find_folder_rule(rules, name), name):
            yield name, entry, value


def format_setting_name(name: str) -> str:
    """Return the name for messages: the dotted key of the settings, or the tool."""
    if name in _SETTING_NAMES:
        return _SETTING_NAMES[name]
    return f"build.{'flags' if name.startswith(('USE_', 'BUILD_')) else 'env'}.{name}"


def is_same_value(one: str, other: str) -> bool:
    """Return True if CMake treats both values as equal, such as ON, 1 and True."""
    return _normalize_value(one) == _normalize_value(other)


def _normalize_value(value: str) -> str:
    """Return a value as CMake writes it: paths without a last slash, `..` and backslashes."""
    text = value.strip()
    if text.upper() in _ON_VALUES:
        return "ON"
    if text.upper() in _OFF_VALUES:
        return "OFF"
    return ";".join(
        normpath(part.replace("\\", "/")) if _ABSOLUTE_PATH.match(part) else part
        for part in text.split(";")
    )
