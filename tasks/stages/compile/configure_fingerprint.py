"""What a build folder was configured from, and what its variables are to CMake.

CMake's cache alone cannot tell a setting that a person changed from one that CMake itself turned
off, nor that a compiler was replaced under the same name. So what was asked for is kept beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from posixpath import normpath

from tasks.knowledge.facts import FolderRule

TOOL_PREFIX = "toolchain."  # begins the names of what is no variable
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
    """What a folder is configured from.

    `variables` are those of the build environment; `toolchain` has the identity of each tool by
    `toolchain.cxx` and the like, and lacks what is not known. `held` are the entries of
    CMakeCache.txt that they came to. `pending` are the variables of a configure that did not end,
    None where the last one did.
    """

    variables: Mapping[str, str]
    toolchain: Mapping[str, str] = field(default_factory=dict)
    held: Mapping[str, str] = field(default_factory=dict)
    pending: Mapping[str, str] | None = None


def find_folder_rule(rules: Iterable[FolderRule], name: str) -> FolderRule:
    """The first rule that matches; the last of all matches everything."""
    return next(rule for rule in rules if any(fnmatchcase(name, key) for key in rule.keys))


def list_cache_entries(rule: FolderRule, name: str) -> tuple[str, ...]:
    """The entries of CMakeCache.txt that hold this variable's value."""
    return tuple(name if entry == "=" else entry for entry in rule.entries)


def list_expected_entries(
    rules: tuple[FolderRule, ...], wanted: ConfigureFingerprint
) -> Iterator[tuple[str, str, str]]:
    """Name, entry and value of everything that a configured folder can be told again, and that
    CMakeCache.txt has to hold.
    """
    for name, entry, value in _list_all_entries(rules, wanted):
        if find_folder_rule(rules, name).effect == "reconfigure":
            yield name, entry, value


def build_cmake_definitions(
    rules: tuple[FolderRule, ...], wanted: ConfigureFingerprint
) -> dict[str, str]:
    """What CMake is given as -D in an empty folder, by entry."""
    found = _list_all_entries(rules, wanted)
    return {
        entry: format_cmake_paths(value)
        for name, entry, value in found
        if find_folder_rule(rules, name).defines
    }


def format_cmake_paths(value: str) -> str:
    """With forward slashes in the absolute paths of Windows: CMake writes what it is given into
    files of its own, where a backslash would escape what follows it.
    """
    parts = value.split(";")
    return ";".join(part.replace("\\", "/") if _DRIVE_PATH.match(part) else part for part in parts)


def _list_all_entries(
    rules: tuple[FolderRule, ...], wanted: ConfigureFingerprint
) -> Iterator[tuple[str, str, str]]:
    for name, value in sorted({**wanted.toolchain, **wanted.variables}.items()):
        for entry in list_cache_entries(find_folder_rule(rules, name), name):
            yield name, entry, value


def format_setting_name(name: str) -> str:
    """What a person calls it: the dotted key of the settings, or the tool."""
    if name in _SETTING_NAMES:
        return _SETTING_NAMES[name]
    return f"build.{'flags' if name.startswith(('USE_', 'BUILD_')) else 'env'}.{name}"


def is_same_value(one: str, other: str) -> bool:
    """Whether CMake takes both for the same: ON, 1 and True are."""
    return _normalize_value(one) == _normalize_value(other)


def _normalize_value(value: str) -> str:
    text = value.strip()
    if text.upper() in _ON_VALUES:
        return "ON"
    return "OFF" if text.upper() in _OFF_VALUES else ";".join(map(_normalize_path, text.split(";")))


def _normalize_path(text: str) -> str:
    """An absolute path as CMake writes it: without a last slash, `..` and backslashes."""
    return normpath(text.replace("\\", "/")) if _ABSOLUTE_PATH.match(text) else text
