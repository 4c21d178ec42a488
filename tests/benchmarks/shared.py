"""A second machine, whose compilations the first has done: against the first, by a redis between
them, with a cache that is its own and empty, another folder and another user. Without configuring.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from pathlib import Path

from tests.benchmarks.rows import RUNS, Row
from tests.support.machines import Machine
from tests.support.redisserver import PROGRAM, redis

REACH, HITS = 0.15, 0.95
_OBJECTS = 30


def measure() -> Row:
    """Medians; every run has new machines and a new redis."""
    if PROGRAM is None or not shutil.which("ccache"):
        return Row("shared", REACH)
    found = [_once() for _ in range(RUNS)]
    first, second = (statistics.median(times) for times in list(zip(*found, strict=True))[:2])
    least = min(hits for _, _, hits in found)
    failed = "" if least >= HITS else f"{least:.0%} hits"
    return Row("shared", REACH, second, first, failed)


def _once() -> tuple[float, float, float]:
    """Seconds of the first machine and of the second, and the share that was served there."""
    with tempfile.TemporaryDirectory(prefix="torchyard-shared-") as name, redis(Path(name)) as url:
        one = Machine(Path(name) / "alice", url, _OBJECTS, heavy=True)
        two = Machine(Path(name) / "home" / "bob", url, _OBJECTS, heavy=True)
        one.build()
        two.build()
        first, second = one.last(), two.last()
        cache = second["cache"]
        served = cache["shared"] / (cache["hits"] + cache["misses"])
        return first["ninja_seconds"], second["ninja_seconds"], served
