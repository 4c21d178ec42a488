"""Requirements of distributions: those that can be read, those that hold in an environment, and
those that torchyard.lock pins to another version. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from tasks.core.model import Locked

_SYSTEMS = {
    "linux": {"os_name": "posix", "sys_platform": "linux", "platform_system": "Linux"},
    "windows": {"os_name": "nt", "sys_platform": "win32", "platform_system": "Windows"},
}
_MACHINES = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}  # as ELF calls them


def readable(lines: Iterable[str]) -> Iterator[Requirement]:
    """Without those of a time before PEP 508."""
    for line in lines:
        try:
            asked = Requirement(line)
        except InvalidRequirement:
            continue
        yield asked


def holds(asked: Requirement, where: Mapping[str, str], extras: Iterable[str] = ()) -> bool:
    """Whether its marker lets it, with or without these extras. What `where` leaves open is as in
    this Python.
    """
    marker = asked.marker
    given = ("", *extras)
    return marker is None or any(marker.evaluate({**where, "extra": extra}) for extra in given)


def applying(
    requires: Iterable[Requirement], system: Literal["linux", "windows"], machine: str = ""
) -> list[Requirement]:
    """Those for that system; the `machine` as ELF names it, else this one's. Python is this one."""
    where = dict(_SYSTEMS[system])
    if machine in _MACHINES:
        where["platform_machine"] = _MACHINES[machine]
    return [one for one in requires if holds(one, where)]


def versions(packages: Locked) -> dict[str, str]:
    """Return the pinned versions by normalized name."""
    pairs = (pin.split("==", 1) for pin in packages)
    return {canonicalize_name(name): version for name, version in pairs}


def unlike(locked: Locked, there: Mapping[str, str]) -> tuple[str, ...]:
    """Return a sentence for each locked package that `there` (name → version) has otherwise."""
    return tuple(
        f"{name} {version} is locked, and {there.get(name, 'none')} is there"
        for name, version in versions(locked).items()
        if there.get(name) != version
    )
