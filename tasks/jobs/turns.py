"""Decide which extensions build in parallel. Builds of the pool share its jobs; a build with a
number of its own is counted separately and runs alone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_condition = threading.Condition()
_active_builds = {"sharing": 0, "alone": 0, "waiting": 0}


@contextmanager
def reserve_build_slot(*, alone: bool) -> Iterator[None]:
    """For the block there is no build beside it that it may not be beside."""
    with _condition:
        _wait_for_slot(alone=alone)
        _active_builds["alone" if alone else "sharing"] += 1
    try:
        yield
    finally:
        with _condition:
            _active_builds["alone" if alone else "sharing"] -= 1
            _condition.notify_all()


def _wait_for_slot(*, alone: bool) -> None:
    """Who wants to be alone goes before those that come later, or would wait for all of them."""
    if not alone:
        _condition.wait_for(lambda: not _active_builds["alone"] and not _active_builds["waiting"])
        return
    _active_builds["waiting"] += 1
    try:
        _condition.wait_for(lambda: not _active_builds["alone"] and not _active_builds["sharing"])
    finally:
        _active_builds["waiting"] -= 1
