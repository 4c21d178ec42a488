"""One install into an environment at a time: whoever comes second waits, and then sees what the
first has done.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath

from filelock import FileLock, Timeout

from tasks.core.digest import compute_text_sha256
from tasks.system.voice import print_line

_LOCK_FOLDER = ".installing"  # among the folders of all profiles


@contextmanager
def lock_environment(builds: PurePath, prefix: PurePath) -> Iterator[None]:
    """For the block no other profile of this checkout changes the environment `prefix`."""
    place = Path(builds) / _LOCK_FOLDER / f"{compute_text_sha256(str(prefix))[:16]}.lock"
    place.parent.mkdir(parents=True, exist_ok=True)
    guard = FileLock(place)
    try:
        guard.acquire(timeout=0)
    except Timeout:
        print_line(f"another profile is at work in {prefix}: waiting for it")
        guard.acquire()
    try:
        yield
    finally:
        guard.release()
