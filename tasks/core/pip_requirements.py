"""Parse, filter and compare the requirements of Python packages."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Literal

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from tasks.core.model import LockedPackages

_SYSTEM_MARKERS = {
    "linux": {"os_name": "posix", "sys_platform": "linux", "platform_system": "Linux"},
    "windows": {"os_name": "nt", "sys_platform": "win32", "platform_system": "Windows"},
}
_MACHINE_MARKERS = {
    "EM_X86_64": {"platform_machine": "x86_64"},
    "EM_AARCH64": {"platform_machine": "aarch64"},
}


def parse_requirements(lines: Iterable[str]) -> Iterator[Requirement]:
    """Yield the parsed requirements, without lines that PEP 508 does not allow."""
    for line in lines:
        with suppress(InvalidRequirement):
            yield Requirement(line)


def is_requirement_applicable(
    requirement: Requirement, where: Mapping[str, str], extras: Iterable[str] = ()
) -> bool:
    """Return True if the requirement's marker holds without an extra, or with one of `extras`.

    `where` has marker variables; others have the values of the Python that runs torchyard.
    """
    marker = requirement.marker
    return marker is None or any(marker.evaluate({**where, "extra": one}) for one in ("", *extras))


def select_applicable_requirements(
    requires: Iterable[Requirement], system: Literal["linux", "windows"], machine: str = ""
) -> list[Requirement]:
    """Return the requirements whose markers hold on `system` and ELF `machine` (EM_X86_64)."""
    markers = _SYSTEM_MARKERS[system] | _MACHINE_MARKERS.get(machine, {})
    return [one for one in requires if is_requirement_applicable(one, markers)]


def parse_pinned_versions(packages: LockedPackages) -> dict[str, str]:
    """Return the pinned versions by normalized package name."""
    pairs = (pin.split("==", 1) for pin in packages)
    return {canonicalize_name(name): version for name, version in pairs}


def describe_version_mismatches(
    locked: LockedPackages, installed: Mapping[str, str]
) -> tuple[str, ...]:
    """Return a sentence for each locked package that is not installed in the locked version."""
    return tuple(
        f"{name} {version} is locked, but {installed.get(name, 'no version')} is installed"
        for name, version in parse_pinned_versions(locked).items()
        if installed.get(name) != version
    )
