"""Name the package of Debian and Ubuntu that has a header, library, module or program."""

from __future__ import annotations

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
_FOLDER_STEPS: Mapping[NameClass, str] = {
    "headers": (
        "name its folder if it is installed: find / -path '*/{name}' 2>/dev/null shows it, then "
        "export CPATH=FOLDER:$CPATH"
    ),
    "libraries": (
        "name its folder if it is installed: find / -name 'lib{name}.*' 2>/dev/null shows it, then "
        "export LIBRARY_PATH=FOLDER:$LIBRARY_PATH"
    ),
    "modules": (
        "name its folder if it is installed: find / -name {name}.pc 2>/dev/null shows it, then "
        "export PKG_CONFIG_PATH=FOLDER:$PKG_CONFIG_PATH"
    ),
}
_SUBMODULE_STEP = (
    "run git submodule update --init --recursive in the source tree, if {library} is a submodule"
)
_ON_MACOS = "install it: brew search {short} names it, then brew install NAME"
_ON_WINDOWS = (
    "install it: conda search -c conda-forge '*{short}*' names it (conda install -c conda-forge "
    "NAME), or vcpkg search {short}; then set INCLUDE=FOLDER\\include;%INCLUDE% and "
    "LIB=FOLDER\\lib;%LIB%"
)


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
        found = ((kind, self.find_package(kind, name)) for kind in _CLASSES.get(table, ()))
        kind, package = next(((kind, one) for kind, one in found if one), ("programs", ""))
        is_other_system = bool(managers) and not {"apt", "dnf"}.intersection(managers)
        if not package or (is_other_system and kind == "programs"):
            return None
        library = package.removesuffix("-dev")
        words = {"name": name, "library": library, "short": library.removeprefix("lib")}
        packages = {"apt": package, "dnf": _FEDORA_NAMES[kind].format(**words)}
        if is_other_system:
            install = (_ON_MACOS if "brew" in managers else _ON_WINDOWS).format(**words)
        else:
            install = format_install_steps(packages, managers)
        folder = "" if is_other_system else _FOLDER_STEPS.get(kind, "")
        submodule = _SUBMODULE_STEP if kind == "headers" else ""
        folder = HOMEBREW_FOLDERS if "brew" in managers else folder.format(**words)
        steps = (install, folder, submodule.format(**words))
        return _CAUSES[kind].format(**words), tuple(filter(None, steps))


def _list_folders(header: str) -> Iterator[str]:
    """Yield a header, then the folders in its name: a/b.h, a/."""
    yield header
    parts = header.split("/")[:-1]
    for depth in range(len(parts), 0, -1):
        yield "/".join(parts[:depth]) + "/"
