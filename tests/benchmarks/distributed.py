"""c10 of PyTorch's own tree compiled by two machines that each have a part of a core, against one
of them. Preprocessing is this machine's in both.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.benchmarks.cgroup import slowed
from tests.benchmarks.part import NOTHING, Part, opened
from tests.benchmarks.rows import Row
from tests.support.distccd import Distccd, distccd, why_not

NAME, REACH = "distributed", 1 / 1.6
SHARE = 0.3  # of a core, for each of the two
_TARGET = "c10"


def measure() -> Row:
    """One first, then both; what was compiled here although it was to be sent is told."""
    part = why_not() or opened()
    if isinstance(part, str):
        print(f"{NAME}: not run: {part}")
        return Row(NAME, REACH)
    part.yard.debian.must("apt-get", "install", "-y", "-qq", "distcc")
    part.wipe()
    part.compile(TORCHYARD__BUILD__TARGET=NOTHING)
    with tempfile.TemporaryDirectory() as folder, _workers(Path(folder), part) as workers:
        if len(workers) < 2:
            print(f"{NAME}: not run: no cgroup can be made here")
            return Row(NAME, REACH)
        one, two = _run(part, workers[:1]), _run(part, workers)
    for run in (one, two):
        print(f"  {run['ninja_seconds']:.1f} s: {run['workers']['by_host']}, {run['jobs']} jobs")
    few = "" if len(two["workers"]["by_host"]) > 1 else "one of the two had nothing"
    return Row(NAME, REACH, two["ninja_seconds"], one["ninja_seconds"], few)


@contextmanager
def _workers(folder: Path, part: Part) -> Iterator[list[Distccd]]:
    """Two, with the compilers of the Debian root."""
    root = part.yard.debian.root
    with ExitStack() as stack:
        groups = [stack.enter_context(slowed(SHARE, name)) for name in ("one", "two")]
        yield [
            stack.enter_context(distccd(folder, by=group.inside(), root=root))
            for group in groups
            if group
        ]


def _run(part: Part, workers: list[Distccd]) -> Mapping[str, Any]:
    """Every object of c10, none from the cache."""
    for path in (part.yard.build / "compile.json", *(part.folder / "c10").rglob("*.o")):
        path.unlink()
    hosts = json.dumps([one.host(2) for one in workers])
    _, run = part.compile(
        TORCHYARD__BUILD__TARGET=_TARGET,
        TORCHYARD__BUILD__DISTRIBUTE="distcc",
        TORCHYARD__BUILD__HOSTS=hosts,
        CCACHE_RECACHE="1",
    )
    return run
