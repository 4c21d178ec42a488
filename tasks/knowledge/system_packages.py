"""Name the package of Debian and Ubuntu that has a header, library, module or program."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from tasks.knowledge.error_kinds import HOMEBREW_FOLDERS, format_install_steps

NameClass = Literal["headers", "libraries", "modules", "programs"]
_CLASSES: Mapping[str, tuple[NameClass, ...]] = {  # of the names in a table of the kinds
    "headers": ("headers",),
    "link_libraries": ("libraries",),
    "development_packages": ("modules", "libraries"),
    "programs": ("programs",),
}
_CAUSES: Mapping[NameClass, str] = {
    "headers": (
        "{name} is a header of the library {library}: its development files are not installed, or "
        "are in a folder that the compiler does not search"
    ),
    "libraries": (
        "the linker does not find the library {name}: its development files ({library}) are not "
        "installed, or are in a folder that is not searched"
    ),
    "modules": (
        "the library {library} is not installed with its development files, or pkg-config does not "
        "search its folder: it finds no {name}.pc"
    ),
    "programs": "the program {name} is not installed, or not on PATH",
}
_FEDORA_NAMES: Mapping[NameClass, str] = {
    "headers": "'*/{name}'",
    "libraries": "'*/lib{name}.so'",
    "modules": "'pkgconfig({name})'",
    "programs": "/usr/bin/{name}",
}
_FILES: Mapping[NameClass, str] = {
    "headers": "{name}",
    "libraries": "lib{name}.so",
    "modules": "{name}.pc",
    "programs": "{name}",
}
_SUBMODULE_STEP = (
    "run git submodule update --init --recursive in the source tree, if {library} is a submodule"
)
_PACMAN_STEP = "find its package: sudo pacman -Fy, then pacman -F {file} names it"
_BREW_STEP = "install it: brew search {short} names it, then brew install NAME"
_BREW_MODULES = (
    "let pkg-config search Homebrew's folder: export "
    'PKG_CONFIG_PATH="$(brew --prefix)/lib/pkgconfig:$PKG_CONFIG_PATH"'
)
_WINDOWS_STEP = (
    'install it: conda search -c conda-forge "*{short}*" names it (conda install -c conda-forge '
    "NAME), or vcpkg search {short}"
)
_FOLDER_STEPS: Mapping[NameClass, str] = {  # on Linux
    "headers": (
        "name its folder if it is installed: find / -path '*/{name}' 2>/dev/null shows it; then "
        "export CPATH=FOLDER:$CPATH, where FOLDER is the part of the path before /{name}"
    ),
    "libraries": (
        "name its folder if it is installed: find / -name 'lib{name}.*' 2>/dev/null shows it; then "
        "export LIBRARY_PATH=FOLDER:$LIBRARY_PATH"
    ),
    "modules": (
        "name its folder if it is installed: find / -name {name}.pc 2>/dev/null shows it; then "
        "export PKG_CONFIG_PATH=FOLDER:$PKG_CONFIG_PATH"
    ),
}
_WINDOWS_FOLDER_STEPS: Mapping[NameClass, str] = {
    "headers": "name its folder: set INCLUDE=FOLDER\\include;%INCLUDE%",
    "libraries": "name its folder: set LIB=FOLDER\\lib;%LIB%",
    "modules": "name its folder: set PKG_CONFIG_PATH=FOLDER\\lib\\pkgconfig",
}
_RELEASE_NUMBER = re.compile(r"(?<=\w{3})-?\d[\d.]*g?$")  # zlib1g, gee-0.8


@dataclass(frozen=True)
class SystemPackages:
    """The names that packages of Debian have, as in read/system_packages.yaml."""

    document: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @cached_property
    def _owners(self) -> Mapping[str, Mapping[str, str]]:
        """The package of each name; that of a folder of headers ends with a slash."""
        return {
            kind: {name: package for package, names in rows.items() for name in names.split()}
            for kind, rows in self.document.items()
        }

    def find_package(self, kind: NameClass, name: str) -> str:
        """Return the package that has a name, or for a header its folder; "" if unknown."""
        owners = self._owners.get(kind, {})
        names = _list_folders(name) if kind == "headers" else (name,)
        return next((owners[one] for one in names if one in owners), "")

    def explain_name(
        self, table: str, name: str, managers: Sequence[str] = ()
    ) -> tuple[str, tuple[str, ...]] | None:
        """Return why a name of a table of the kinds is missing, and the steps; `None` if unknown.

        `managers` are the package managers of the log's system, empty if it is unknown.
        """
        for kind in _CLASSES.get(table, ()):
            if package := self.find_package(kind, name):
                library = package.removesuffix("-dev")
                short = _RELEASE_NUMBER.sub("", library.removeprefix("lib"))
                words = {"name": name, "library": library, "package": package, "short": short}
                words["file"] = _FILES[kind].format(**words)
                steps = [step.format(**words) for step in _list_steps(kind, words, managers)]
                return (_CAUSES[kind].format(**words), tuple(steps)) if steps else None
        return None


def _list_steps(
    kind: NameClass, words: Mapping[str, str], managers: Sequence[str]
) -> Iterator[str]:
    """Yield the steps for a system with these package managers."""
    if not managers or {"apt", "dnf", "pacman"}.intersection(managers):
        if "pacman" in managers:
            yield _PACMAN_STEP
            yield format_install_steps({"pacman": "NAME"}, managers)
        else:
            fedora = _FEDORA_NAMES[kind].format(**words)
            yield format_install_steps({"apt": words["package"], "dnf": fedora}, managers)
        if kind != "programs":
            yield _FOLDER_STEPS[kind]
    elif "brew" in managers:
        yield _BREW_STEP
        if kind != "programs":
            yield _BREW_MODULES if kind == "modules" else HOMEBREW_FOLDERS
    elif kind != "programs":  # Windows
        yield _WINDOWS_STEP
        yield _WINDOWS_FOLDER_STEPS[kind]
    if kind == "headers":
        yield _SUBMODULE_STEP


def _list_folders(header: str) -> Iterator[str]:
    """Yield a header, then the folders in its name: a/b.h, a/."""
    yield header
    parts = header.split("/")[:-1]
    for depth in range(len(parts), 0, -1):
        yield "/".join(parts[:depth]) + "/"
