"""The command that adds what is missing, as a person types it on their system. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tasks.knowledge.load import Knowledge


@dataclass(frozen=True)
class PackageManager:
    """Its command, and its names of what remedies ask for."""

    systems: tuple[str, ...]
    command: str
    packages: Mapping[str, str]


@dataclass(frozen=True)
class PackageManagers:
    """All that are known, and what a person calls what they are asked for."""

    names: Mapping[str, str]
    managers: tuple[PackageManager, ...]

    def of(self, systems: Sequence[str]) -> PackageManager | None:
        """That of the system that goes by these names, the most exact first."""
        found = (one for name in systems for one in self.managers if name in one.systems)
        return next(found, None)


def read_package_managers(data: Mapping[str, Any]) -> PackageManagers:
    """packagemanagers.yaml."""
    names = {name: plain for name, plain in data["names"].items() if name != "status"}
    return PackageManagers(names, tuple(_rows(data["managers"])))


def _rows(managers: Mapping[str, Mapping[str, Any]]) -> Iterator[PackageManager]:
    own = {"systems", "command", "status"}
    for row in managers.values():
        packages = {name: package for name, package in row.items() if name not in own}
        yield PackageManager(tuple(row["systems"]), row["command"], packages)


def command(knowledge: Knowledge, systems: Sequence[str], asked: str, **words: str) -> str:
    """`sudo apt install g++-14`, "" where its name here is not known; `words` are what names have
    in them.
    """
    manager = knowledge.package_managers.of(systems)
    package = manager.packages.get(asked, "") if manager else ""
    try:
        return f"{manager.command} {package.format_map(words)}" if manager and package else ""
    except KeyError:
        return ""


def installing(knowledge: Knowledge, systems: Sequence[str], asked: str, **words: str) -> str:
    """The command; where none is known here `install rsync with your package manager`."""
    name = knowledge.package_managers.names[asked].format_map(words)
    known = command(knowledge, systems, asked, **words)
    return known or f"install {name} with your package manager"
