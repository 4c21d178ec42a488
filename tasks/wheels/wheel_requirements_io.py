"""Read the requirements of a wheel, and find those that an interpreter lacks.

Format: https://packaging.python.org/specifications/dependency-specifiers/.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from email.parser import HeaderParser
from pathlib import Path, PurePath

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tasks.core.model import Command
from tasks.core.pip_requirements import is_requirement_applicable, parse_requirements
from tasks.knowledge.versions import format_major_minor
from tasks.system import shell
from tasks.wheels import wheel_archive_io

_LIST_PACKAGES_SCRIPT = """
import importlib.metadata as m, json
found = [(d.metadata["Name"] or "", d.version) for d in m.distributions()]
print(json.dumps(dict(reversed(found))))
"""


def list_installed_packages(python: str, overlay: PurePath | None = None) -> Mapping[str, str]:
    """Return the versions of the packages that an interpreter finds.

    `overlay` is a directory that precedes all others on its path.
    """
    env = {**shell.build_host_env(), **({"PYTHONPATH": str(overlay)} if overlay else {})}
    listing = shell.capture_output(
        Command((python, "-c", _LIST_PACKAGES_SCRIPT), env, "list the packages")
    )
    return {canonicalize_name(name): version for name, version in json.loads(listing).items()}


def find_missing_requirements(asked: Iterable[str], have: Mapping[str, str]) -> tuple[str, ...]:
    """Return the requirements that are not met by an installed version."""
    return tuple(one for one in asked if not _is_requirement_met(Requirement(one), have))


def _is_requirement_met(asked: Requirement, have: Mapping[str, str]) -> bool:
    version = have.get(canonicalize_name(asked.name))
    return version is not None and asked.specifier.contains(version, prereleases=True)


def read_wheel_requirements(wheel: Path, python_version: str) -> tuple[str, ...]:
    """Return the requirements in a wheel's METADATA, without those of extras.

    Only those for this machine and that Python version are returned.
    """
    environment: dict[str, str] = {
        **{name: str(value) for name, value in default_environment().items()},
        "python_full_version": python_version,
        "python_version": format_major_minor(python_version),
    }
    metadata = HeaderParser().parsestr(wheel_archive_io.read_wheel_metadata(wheel))
    return tuple(_select_applicable(metadata.get_all("Requires-Dist", []), environment))


def _select_applicable(lines: Iterable[str], here: Mapping[str, str]) -> Iterator[str]:
    for requirement in parse_requirements(lines):
        if is_requirement_applicable(requirement, here):
            requirement.marker = None
            yield str(requirement)
