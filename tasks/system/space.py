"""Whether there is room on a disk: asked before work begins that would fail for the lack of it."""

from __future__ import annotations

import shutil
from pathlib import PurePath

from tasks.core.errors import NoSpaceError
from tasks.core.formatting.size import format_size
from tasks.knowledge.thresholds import STARTED_BUILD_MIB
from tasks.system.folders import find_existing_ancestor


def require_minimum_space(folder: PurePath, what: str) -> None:
    """`NoSpaceError` where so little is left that a stage is sure to fail. Whether there is room
    for all of it was asked when the build began.
    """
    require_disk_space(folder, STARTED_BUILD_MIB[0], f"{what}, at the very least,")


def require_disk_space(folder: PurePath, needed_mib: int, what: str, where: str = "") -> None:
    """`NoSpaceError` with needs and has where the disk under `folder` has less room; `where` is how
    a person knows the place, the folder by itself.
    """
    free = shutil.disk_usage(find_existing_ancestor(folder)).free // 2**20
    if free < needed_mib:
        raise NoSpaceError(
            f"{what} needs {format_size(needed_mib)} and the disk has {format_size(free)} left",
            location=where or str(folder),
            hint="free some room there"
            if where
            else "free some room, or put the checkout on a larger disk",
        )
