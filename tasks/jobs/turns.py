"""Decide which extensions build in parallel. Builds of the pool share its jobs; a build with a
number of its own is counted separately and runs alone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_changed = threading.Condition()
_at_work = {"sharing": 0, "alone": 0, "waiting": 0}


@contextmanager
def turn(*, alone: bool) -> Iterator[None]:
    """For the block there is no build beside it that it may not be beside."""
    with _changed:
        _wait(alone=alone)
        _at_work["alone" if alone else "sharing"] += 1
    try:
        yield
    finally:
        with _changed:
            _at_work["alone" if alone else "sharing"] -= 1
            _changed.notify_all()


def _wait(*, alone: bool) -> None:
    """Who wants to be alone goes before those that come later, or would wait for all of them."""
    if not alone:
        _changed.wait_for(lambda: not _at_work["alone"] and not _at_work["waiting"])
        return
    _at_work["waiting"] += 1
    try:
        _changed.wait_for(lambda: not _at_work["alone"] and not _at_work["sharing"])
    finally:
        _at_work["waiting"] -= 1
