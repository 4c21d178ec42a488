"""Find the command that installs a missing package on the user's system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from tasks.knowledge.knowledge_files import Knowledge


class PackageManager(Struct, frozen=True, kw_only=True):
    """A package manager: its install command, and its names for the packages in hints."""

    systems: tuple[str, ...]
    command: str
    packages: Mapping[str, str]


class PackageManagers(Struct, frozen=True, kw_only=True):
    """The known package managers and packages.

    `names` are for display: "blas" is "OpenBLAS and its headers". `releases` has the versions of
    "python" and "gcc" that a system release provides ("debian-12"). `anywhere` has install commands
    that work on every system, by package.
    """

    names: Mapping[str, str]
    managers: tuple[PackageManager, ...]
    releases: Mapping[str, Mapping[str, Any]]
    anywhere: Mapping[str, str]


def find_install_command(
    knowledge: Knowledge, systems: Sequence[str], package: str, **words: str
) -> str:
    """Return the install command, such as `sudo apt install g++-14`, "" if unknown.

    `systems` are the names of the user's system, the most specific first. `words` are versions for
    the package name (`gcc="14"`), which the system's release must provide.
    """
    facts = knowledge.package_managers
    managers = (one for name in systems for one in facts.managers if name in one.systems)
    manager = next(managers, None)
    template = facts.anywhere.get(package, "")
    if manager and (name := manager.packages.get(package)):
        versions = next((facts.releases[one] for one in systems if one in facts.releases), {})
        known_systems = {release.rpartition("-")[0] for release in facts.releases}
        required = {word for word in words if f"{{{word}}}" in name}
        is_present = all(words[word] in versions.get(word, ()) for word in required)
        if is_present or known_systems.isdisjoint(manager.systems):
            template = f"{manager.command} {name}"
    try:
        return template.format_map(words)
    except KeyError:
        return ""


def format_install_hint(
    knowledge: Knowledge, systems: Sequence[str], package: str, **words: str
) -> str:
    """Return the command that installs `package`, or a sentence if no package manager is known."""
    name = knowledge.package_managers.names[package].format_map(words)
    command = find_install_command(knowledge, systems, package, **words)
    return command or f"install {name} with your package manager"
