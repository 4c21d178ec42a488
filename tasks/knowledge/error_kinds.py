"""The kinds of errors that are no known failure, and the tables that explain the names in them.

A kind knows the form of a message, such as "a header is missing", and says what can be said of it
from the names in the line. A table row knows one name: which package has the header `GL/glew.h`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Literal

from msgspec import Struct, field

from tasks.knowledge.facts import Pattern

About = Literal[
    "compiler", "linker", "loader", "CUDA", "CMake", "make", "pip", "conda", "git", "Python",
    "network", "kernel", "disk", "GPU",
]  # fmt: skip
_KIND_FOLDERS = {  # in the order in which their files are tried
    "compiler": "special_cases headers system_headers cuda_code names options code",
    "linker": "special_cases symbols_at_load libraries_at_load linking_files linking_names",
    "gpu": "special_cases other_gpus drivers memory machine_code libraries",
    "toolkit": "special_cases architectures visual_studio host_compiler toolkit",
    "python": "special_cases syntax names pip building",
    "network": "releases conda connections git system_packages",
    "system": "machines files processes",
    "cmake": "toolkit build_programs compilers packages files",
}
KIND_FILES = (
    "projects",  # before those of their compilers
    *(f"{folder}/{name}" for folder, names in _KIND_FOLDERS.items() for name in names.split()),
    "general",  # the late ones
    *("tables/headers", "tables/cpp_names", "tables/libraries", "tables/symbols"),
    *("tables/python_names", "tables/torch_releases"),
)
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_INSTALL_COMMANDS = {
    "apt": "apt install {} (Debian, Ubuntu)",
    "dnf": "dnf install {} (Fedora, RHEL)",
    "conda": "conda install -c conda-forge {}",
    "pip": "pip install {}",
    "brew": "brew install {} (macOS)",
    "pacman": "pacman -S {} (Arch)",
}

HOMEBREW_FOLDERS = (
    "name the folders of Homebrew, which Apple's compiler does not search: export "
    'CPATH="$(brew --prefix)/include:$CPATH" LIBRARY_PATH="$(brew --prefix)/lib:$LIBRARY_PATH", '
    "then the same command again"
)


class ErrorKind(Struct, frozen=True, kw_only=True):
    """A kind of error. One of `patterns` matches a line; its named groups fill the texts.

    `near`, `unless` and `platform` are as in failures.yaml; the named groups of `near` fill the
    texts too. `machine` has the versions that the log's machine must have, such as "GCC <5". If
    `table` has a row for the value of the group `key`, the row's texts replace `cause` and
    `remedy`. `about` is what failed. `remedy` has one command or sentence for each step. A kind
    with `own` is used only if the last relevant line of the traceback is in the package of the
    group `module`, one with `late` only if no other kind or failure explains the log. `refines` are
    the failures whose texts this kind replaces on a line that both match, in logs of other builds.
    """

    slug: str = field(name="id")
    about: About
    patterns: tuple[Pattern, ...]
    cause: str
    remedy: tuple[str, ...]
    status: str
    near: tuple[Pattern, ...] = ()
    unless: tuple[Pattern, ...] = ()
    platform: str = ""
    machine: tuple[str, ...] = ()
    table: str = ""
    key: str = ""
    own: bool = False
    late: bool = False
    refines: tuple[str, ...] = ()


class NameRow(Struct, frozen=True, kw_only=True):
    """What is known of a name: `match` is a regular expression for the whole name.

    `packages` has the package to install, by package manager.
    """

    match: Pattern
    cause: str = ""
    remedy: tuple[str, ...] = ()
    packages: Mapping[str, str] = {}
    status: str = ""


def find_name(
    rows: Sequence[NameRow], name: str, values: Mapping[str, str] | None = None
) -> tuple[NameRow, dict[str, str]] | None:
    """Return the first row that matches the whole name, and the values of its named groups.

    With `values`, rows are left out whose cause needs a word that neither has.
    """
    for row in rows:
        if match := compile_name(row.match).fullmatch(name):
            groups = {key: value for key, value in match.groupdict().items() if value}
            if values is None or can_fill(row.cause, {**values, **groups}):
                return row, groups
    return None


@cache
def compile_name(pattern: str) -> re.Pattern[str]:
    """Return the compiled expression of a row; case is ignored."""
    return re.compile(pattern, re.IGNORECASE)


def fill_text(text: str, values: Mapping[str, str]) -> str:
    """Return the text with {name} replaced. Raises `KeyError` if a value is missing."""
    return _PLACEHOLDER.sub(lambda found: values[found[1]], text)


def can_fill(text: str, values: Mapping[str, str]) -> bool:
    """Return True if `values` has a value for each {name} in the text."""
    return all(values.get(name) for name in _PLACEHOLDER.findall(text))


def format_install_steps(packages: Mapping[str, str], systems: Sequence[str] = ()) -> str:
    """Return how to install a package, "install it: apt install a (Debian, Ubuntu), or …".

    `systems` are the package managers that the log's system has; by default, all are named.
    """
    managers = [name for name in packages if name in systems] or list(packages)
    commands = [_INSTALL_COMMANDS[name].format(packages[name]) for name in managers]
    return f"install it: {', or '.join(commands)}" if commands else ""
