"""Which requirements of a wheel hold where it is installed, by their markers, without an extra.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from packaging.requirements import Requirement

_SYSTEMS = {
    "linux": {"os_name": "posix", "sys_platform": "linux", "platform_system": "Linux"},
    "windows": {"os_name": "nt", "sys_platform": "win32", "platform_system": "Windows"},
}
_MACHINES = {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}  # as ELF calls them


def applying(
    requires: Iterable[Requirement], system: Literal["linux", "windows"], machine: str = ""
) -> list[Requirement]:
    """Those for that system; the `machine` as ELF names it, else this one's. Python is this one."""
    where = {**_SYSTEMS[system], "extra": ""}
    if machine in _MACHINES:
        where["platform_machine"] = _MACHINES[machine]
    return [one for one in requires if one.marker is None or one.marker.evaluate(where)]
