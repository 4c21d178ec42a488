"""Find the command that installs a missing package on the user's system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from tasks.knowledge.knowledge_files import Knowledge


class PackageManager(Struct, frozen=True, kw_only=True):
    """The install command of a package manager, and its names of the packages in hints."""

    systems: tuple[str, ...]
    command: str
    packages: Mapping[str, str]


class PackageManagers(Struct, frozen=True, kw_only=True):
    """The known package managers and packages.

    `names` are package names for display: "blas" is "OpenBLAS and its headers". `releases` has the
    versions that a system release provides: "debian-12" has the versions of "python" and of "gcc".
    `anywhere` has install commands that work on every system, by package.
    """

    names: Mapping[str, str]
    managers: tuple[PackageManager, ...]
    releases: Mapping[str, Mapping[str, Any]]
    anywhere: Mapping[str, str]

    def has_package(
        self, manager: PackageManager, systems: Sequence[str], words: Mapping[str, str]
    ) -> bool:
        """Return True if the user's system release has packages of the versions in `words`.

        Return True also if `releases` lists no release of the systems of `manager`.
        """
        if not any(system.rpartition("-")[0] in manager.systems for system in self.releases):
            return True
        versions = next((self.releases[name] for name in systems if name in self.releases), {})
        return all(version in versions.get(word, ()) for word, version in words.items())


def find_install_command(
    knowledge: Knowledge, systems: Sequence[str], package: str, **words: str
) -> str:
    """Return the install command, such as `sudo apt install g++-14`.

    Return "" if no command is known. `systems` are the names of the user's system, the most
    specific first; `words` are the versions in the package names.
    """
    facts = knowledge.package_managers
    managers = (one for name in systems for one in facts.managers if name in one.systems)
    manager = next(managers, None)
    package_name = manager.packages.get(package, "") if manager else ""
    versions = {word: words[word] for word in words if f"{{{word}}}" in package_name}
    template = facts.anywhere.get(package, "")
    if manager and package_name and facts.has_package(manager, systems, versions):
        template = f"{manager.command} {package_name}"
    try:
        return template.format_map(words)
    except KeyError:
        return ""


def format_install_hint(
    knowledge: Knowledge, systems: Sequence[str], package: str, **words: str
) -> str:
    """Return the install command; if unknown, `install rsync with your package manager`."""
    name = knowledge.package_managers.names[package].format_map(words)
    command = find_install_command(knowledge, systems, package, **words)
    return command or f"install {name} with your package manager"
