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
_ELF_MACHINES = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}  # by ELF machine name


def parse_requirements(lines: Iterable[str]) -> Iterator[Requirement]:
    """Yield the parsed requirements, without those that are not valid under PEP 508."""
    for line in lines:
        with suppress(InvalidRequirement):
            yield Requirement(line)


def is_requirement_applicable(
    requirement: Requirement, where: Mapping[str, str], extras: Iterable[str] = ()
) -> bool:
    """Return True if the requirement's marker holds, without extras or with one of `extras`.

    Marker variables that are missing in `where` have the values of the Python that runs torchyard.
    """
    marker = requirement.marker
    candidates = ("", *extras)
    return marker is None or any(marker.evaluate({**where, "extra": extra}) for extra in candidates)


def select_applicable_requirements(
    requires: Iterable[Requirement], system: Literal["linux", "windows"], machine: str = ""
) -> list[Requirement]:
    """Return the requirements whose markers hold on `system` with the running Python.

    `machine` is an ELF machine name, by default the machine of this host.
    """
    markers = dict(_SYSTEM_MARKERS[system])
    if machine in _ELF_MACHINES:
        markers["platform_machine"] = _ELF_MACHINES[machine]
    return [one for one in requires if is_requirement_applicable(one, markers)]


def parse_pinned_versions(packages: LockedPackages) -> dict[str, str]:
    """Return the pinned versions by normalized package name."""
    pairs = (pin.split("==", 1) for pin in packages)
    return {canonicalize_name(name): version for name, version in pairs}


def describe_version_mismatches(
    locked: LockedPackages, installed: Mapping[str, str]
) -> tuple[str, ...]:
    """Return a sentence for each locked package whose version in `installed` differs or is missing.

    `installed` maps normalized names to versions.
    """
    return tuple(
        f"{name} {version} is locked, but {installed.get(name, 'no version')} is installed"
        for name, version in parse_pinned_versions(locked).items()
        if installed.get(name) != version
    )
