"""One install into an environment at a time: whoever comes second waits, and then sees what the
first has done.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath

from filelock import FileLock, Timeout

from tasks.core.digest import sha256_text
from tasks.system.voice import say

_TURNS = ".installing"  # among the folders of all profiles


@contextmanager
def turn(builds: PurePath, prefix: PurePath) -> Iterator[None]:
    """For the block no other profile of this checkout changes the environment `prefix`."""
    place = Path(builds) / _TURNS / f"{sha256_text(str(prefix))[:16]}.lock"
    place.parent.mkdir(parents=True, exist_ok=True)
    guard = FileLock(place)
    try:
        guard.acquire(timeout=0)
    except Timeout:
        say(f"another profile is at work in {prefix}: waiting for it")
        guard.acquire()
    try:
        yield
    finally:
        guard.release()
