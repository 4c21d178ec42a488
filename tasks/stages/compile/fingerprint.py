"""What a build folder was configured from, and what its variables are to CMake. Pure.

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

TOOLS = "toolchain."  # begins the names of what is no variable
_SETTINGS = {
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
_ABSOLUTE = re.compile(r"/|[A-Za-z]:[\\/]")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_ON = ("1", "ON", "YES", "TRUE", "Y")
_OFF = ("0", "OFF", "NO", "FALSE", "N")


@dataclass(frozen=True)
class Fingerprint:
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


def rule_for(rules: Iterable[FolderRule], name: str) -> FolderRule:
    """The first rule that matches; the last of all matches everything."""
    return next(rule for rule in rules if any(fnmatchcase(name, key) for key in rule.keys))


def entries(rule: FolderRule, name: str) -> tuple[str, ...]:
    """The entries of CMakeCache.txt that hold this variable's value."""
    return tuple(name if entry == "=" else entry for entry in rule.entries)


def expected(rules: tuple[FolderRule, ...], wanted: Fingerprint) -> Iterator[tuple[str, str, str]]:
    """Name, entry and value of everything that a configured folder can be told again, and that
    CMakeCache.txt has to hold.
    """
    for name, entry, value in _entries(rules, wanted):
        if rule_for(rules, name).effect == "reconfigure":
            yield name, entry, value


def definitions(rules: tuple[FolderRule, ...], wanted: Fingerprint) -> dict[str, str]:
    """What CMake is given as -D in an empty folder, by entry."""
    found = _entries(rules, wanted)
    return {
        entry: for_cmake(value) for name, entry, value in found if rule_for(rules, name).defines
    }


def for_cmake(value: str) -> str:
    """With forward slashes in the absolute paths of Windows: CMake writes what it is given into
    files of its own, where a backslash would escape what follows it.
    """
    parts = value.split(";")
    return ";".join(part.replace("\\", "/") if _DRIVE.match(part) else part for part in parts)


def _entries(rules: tuple[FolderRule, ...], wanted: Fingerprint) -> Iterator[tuple[str, str, str]]:
    for name, value in sorted({**wanted.toolchain, **wanted.variables}.items()):
        for entry in entries(rule_for(rules, name), name):
            yield name, entry, value


def setting(name: str) -> str:
    """What a person calls it: the dotted key of the settings, or the tool."""
    if name in _SETTINGS:
        return _SETTINGS[name]
    return f"build.{'flags' if name.startswith(('USE_', 'BUILD_')) else 'env'}.{name}"


def same(one: str, other: str) -> bool:
    """Whether CMake takes both for the same: ON, 1 and True are."""
    return _plain(one) == _plain(other)


def _plain(value: str) -> str:
    text = value.strip()
    if text.upper() in _ON:
        return "ON"
    return "OFF" if text.upper() in _OFF else ";".join(map(_path, text.split(";")))


def _path(text: str) -> str:
    """An absolute path as CMake writes it: without a last slash, `..` and backslashes."""
    return normpath(text.replace("\\", "/")) if _ABSOLUTE.match(text) else text
