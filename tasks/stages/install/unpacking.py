"""The room that unpacking takes: not again what the build itself has from uv's cache, since that is
one content with several names there, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.knowledge.room import estimate_unpacked_size
from tasks.stages.wheel.job import Wheel
from tasks.system import manifests
from tasks.system.folders import find_existing_ancestor

if TYPE_CHECKING:
    from tasks.stages.install.putting import InstallOrder

_BYTES_PER_MIB = 2**20


def estimate_unpacked_mib(order: InstallOrder) -> int:
    """MiB of everything that comes, by the wheels and by what costs.yaml knows of an index's."""
    sizes = {one.name: one.size // _BYTES_PER_MIB for one in order.chosen}
    linked = set(_list_linked_packages(order)) if order.installer.uv else set()
    new = [name for name in order.versions if name not in linked]
    return sum(sizes.get(name, estimate_unpacked_size(name, order.job.sizes)) for name in new)


def is_same_disk(one: Path, other: Path) -> bool:
    """Also where one is not there yet, whose folders above tell."""
    return find_existing_ancestor(one).stat().st_dev == find_existing_ancestor(other).stat().st_dev


def _list_linked_packages(order: InstallOrder) -> Iterator[str]:
    """What the build's environment has in the same version, and shares with uv's cache."""
    site = Path(manifests.read_manifest(order.job.wheel, Wheel).folder).parent
    if not is_same_disk(site, order.stamp):
        return
    for name, version in order.versions.items():
        found = site / f"{name.replace('-', '_')}-{version}.dist-info" / "METADATA"
        if found.is_file() and found.stat().st_nlink > 1:
            yield name
