"""The room that unpacking takes: not again what the build itself has from uv's cache, since that is
one content with several names there, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.knowledge.room import unpacked
from tasks.stages.wheel.job import Wheel
from tasks.system import manifests
from tasks.system.folders import nearest

if TYPE_CHECKING:
    from tasks.stages.install.putting import Order

_MIB = 2**20


def takes(order: Order) -> int:
    """MiB of everything that comes, by the wheels and by what costs.yaml knows of an index's."""
    sizes = {one.name: one.size // _MIB for one in order.chosen}
    linked = set(_linked(order)) if order.by.uv else set()
    new = [name for name in order.coming if name not in linked]
    return sum(sizes.get(name, unpacked(name, order.job.sizes)) for name in new)


def on_one_disk(one: Path, other: Path) -> bool:
    """Also where one is not there yet, whose folders above tell."""
    return nearest(one).stat().st_dev == nearest(other).stat().st_dev


def _linked(order: Order) -> Iterator[str]:
    """What the build's environment has in the same version, and shares with uv's cache."""
    site = Path(manifests.read(order.job.wheel, Wheel).folder).parent
    if not on_one_disk(site, order.stamp):
        return
    for name, version in order.coming.items():
        found = site / f"{name.replace('-', '_')}-{version}.dist-info" / "METADATA"
        if found.is_file() and found.stat().st_nlink > 1:
            yield name
