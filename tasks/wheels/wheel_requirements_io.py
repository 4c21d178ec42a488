"""Read the requirements of a wheel, and find the requirements that are not installed."""

import json
from collections.abc import Iterable, Mapping
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
    """Return the versions of the packages that `python` finds. `overlay` is searched first."""
    env = {**shell.build_host_env(), **({"PYTHONPATH": str(overlay)} if overlay else {})}
    argv = (python, "-c", _LIST_PACKAGES_SCRIPT)
    listing = shell.capture_output(Command(argv, env, "list the installed packages"))
    return {canonicalize_name(name): version for name, version in json.loads(listing).items()}


def find_missing_requirements(
    lines: Iterable[str], installed: Mapping[str, str]
) -> tuple[str, ...]:
    """Return those requirements in `lines` that the `installed` packages do not meet."""
    missing = []
    for line in lines:
        requirement = Requirement(line)
        version = installed.get(canonicalize_name(requirement.name))
        if version is None or not requirement.specifier.contains(version, prereleases=True):
            missing.append(line)
    return tuple(missing)


def read_wheel_requirements(wheel: Path, python_version: str) -> tuple[str, ...]:
    """Return the requirements of a wheel for this machine and `python_version`, without extras."""
    environment = {name: str(value) for name, value in default_environment().items()} | {
        "python_full_version": python_version,
        "python_version": format_major_minor(python_version),
    }
    metadata = HeaderParser().parsestr(wheel_archive_io.read_wheel_metadata(wheel))
    applicable = []
    for requirement in parse_requirements(metadata.get_all("Requires-Dist", [])):
        if is_requirement_applicable(requirement, environment):
            requirement.marker = None
            applicable.append(str(requirement))
    return tuple(applicable)
