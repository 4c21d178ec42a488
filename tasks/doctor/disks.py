"""The room that a build takes, disk by disk: what doctor judges, and what init and explain tell.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tasks.core.formatting.size import format_size_range

if TYPE_CHECKING:
    from tasks.doctor.host_facts import Disk
    from tasks.knowledge.room import DiskUsage, Range

_PLACE_LABELS = {"environment": "its environment", "caches": "caches"}
_PLACES_OF_BUILD = {"environment", "wheels", "caches", "temporary files"}


def describe_disk(disk: Disk) -> str:
    """What lies on it, in a person's words: what is the build's own is the build."""
    ours = "build" in disk.holds
    parts = ["the build"] if ours else []
    others = [
        one for one in disk.holds if one != "build" and not (ours and one in _PLACES_OF_BUILD)
    ]
    return " and ".join([*parts, *(_PLACE_LABELS.get(one, one) for one in others)])


def compute_disk_usage(disks: Iterable[Disk], room: DiskUsage) -> dict[Disk, Range]:
    """Least and most MiB on each disk that takes any."""
    found = {disk: room.sum_places(disk.holds) for disk in disks}
    return {disk: (least, most) for disk, (least, most) in found.items() if most}


def format_disk_usage(disks: Iterable[Disk], room: DiskUsage | None) -> str:
    """`6.2 GiB of disk`, `3.2 GiB to 18 GiB of disk for the build, 1.2 GiB for install.into`, ""
    where nothing is known.
    """
    found = compute_disk_usage(disks, room) if room else {}
    if len(found) == 1:
        return f"{format_size_range(*next(iter(found.values())))} of disk"
    parts = [f"{format_size_range(*mib)} for {describe_disk(disk)}" for disk, mib in found.items()]
    return ", ".join(parts).replace(" for ", " of disk for ", 1)
