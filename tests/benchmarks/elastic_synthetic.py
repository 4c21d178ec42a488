"""Jobs by memory against the best fixed number that survives: 200 stand-ins for compilers under a
limit that eight of them break.

Most take 20 to 150 MiB, and in their midst a dozen come together that take 400 to 600, as
flash-attention's kernels do among PyTorch's. The promise: in at most 1.15 times the time of the
best fixed number, found by trying, and without one kill.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks import elastic_build
from tests.benchmarks.cgroup import Group, Outcome, capped, timed
from tests.benchmarks.rows import Row

NAME, REACH = "elastic-synthetic", 1.15
LIMIT_MIB = 1280
JOBS, HEAVY, SEED = 200, 12, 20
SWEEP = (8, 6, 4, 3, 2, 1)  # downwards: fewer than the first that survives are only slower
HERE = Path(__file__).parent


def measure() -> Row:
    with capped(LIMIT_MIB) as group:
        if not group:
            print(f"{NAME}: not run: no cgroup can be made here")
            return Row(NAME, REACH)
        with tempfile.TemporaryDirectory(prefix="torchyard-elastic-") as work:
            return _compared(group, Path(work))


def _compared(group: Group, work: Path) -> Row:
    fixed = dict(_sweep(group, work))
    best = min((o.seconds for o in fixed.values() if o.survived), default=None)
    record = work / "peaks.json"
    first = _elastic(group, work / "first", record)
    print(f"  elastic, no record  {first}")
    second = _elastic(group, work / "second", record)
    print(f"  elastic             {second}")
    failed = "" if first.survived and second.survived else "a job was killed"
    if not fixed[8].kills:
        failed = "-j 8 was not killed: this measures nothing"
    return Row(NAME, REACH, round(second.seconds, 2), best and round(best, 2), failed)


def _sweep(group: Group, work: Path) -> Iterator[tuple[int, Outcome]]:
    for jobs in SWEEP:
        folder = _project(work / f"j{jobs}")
        outcome = _timed(group, _ninja(), f"-j{jobs}", "-C", str(folder), "--quiet")
        print(f"  -j {jobs}                {outcome}", flush=True)
        yield jobs, outcome
        if outcome.survived:
            return


def _elastic(group: Group, folder: Path, record: Path) -> Outcome:
    program = str(Path(elastic_build.__file__))
    return _timed(group, sys.executable, program, str(_project(folder)), str(record), _ninja())


def _timed(group: Group, *argv: str) -> Outcome:
    return timed(group, argv, {**os.environ, "PYTHONPATH": str(HERE.parent.parent)})


def _ninja() -> str:
    beside = Path(sys.executable).with_name("ninja")
    return str(beside) if beside.exists() else shutil.which("ninja") or "ninja"


def _project(folder: Path) -> Path:
    """A build.ninja with the same jobs each time."""
    folder.mkdir()
    command = f"{sys.executable} -S -E {HERE / 'hold.py'} -c $in -o $out $mib $seconds"
    lines = [f"rule hold\n  command = {command}"]
    for number, (mib, seconds) in enumerate(jobs()):
        (folder / f"{number}.cpp").touch()
        lines.append(f"build {number}.o: hold {number}.cpp\n  mib = {mib}\n  seconds = {seconds}")
    (folder / "build.ninja").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def jobs() -> list[tuple[int, float]]:
    """MiB and seconds of each; what takes more memory takes longer."""
    chance = random.Random(SEED)
    light = [min(150.0, max(20.0, chance.lognormvariate(3.9, 0.6))) for _ in range(JOBS - HEAVY)]
    heavy = [chance.uniform(400, 600) for _ in range(HEAVY)]
    sizes = [*light[: JOBS // 2], *heavy, *light[JOBS // 2 :]]
    return [(int(mib), round(0.25 + mib / 250 * chance.uniform(0.7, 1.3), 2)) for mib in sizes]


if __name__ == "__main__":
    print(json.dumps(jobs()))
