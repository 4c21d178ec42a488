"""24 of ATen's operators under a cap of 2 GiB: up to eight jobs by memory, against -j 8, which the
kernel kills, and -j 1.
"""

from __future__ import annotations

import time
from pathlib import Path, PurePosixPath

from tests.benchmarks.cgroup import Group, Outcome, capped
from tests.benchmarks.part import HEAVY, Part, opened
from tests.benchmarks.rows import Row
from tests.real.debian import SYSTEM, VENV

NAME, REACH = "elastic-real", 1.0
LIMIT_MIB, COUNT = 2048, 24
HERE = Path(__file__).parent
PEAKS = PurePosixPath("/src/bench-peaks.json")


def measure() -> Row:
    """Ours with a record of the peaks; once before it, without one."""
    part = opened()
    if isinstance(part, str):
        print(f"{NAME}: not run: {part}")
        return Row(NAME, REACH)
    with capped(LIMIT_MIB) as group:
        if not group:
            print(f"{NAME}: not run: no cgroup can be made here")
            return Row(NAME, REACH)
        return _compared(part, group)


def _compared(part: Part, group: Group) -> Row:
    part.yard.add(HERE)
    part.compile(TORCHYARD__BUILD__TARGET="c10")  # and what all objects wait for
    part.upstream.debian.outside(PEAKS).unlink(missing_ok=True)
    eight = _fixed(part, group, 8)
    first, second = _elastic(part, group), _elastic(part, group)
    one = _fixed(part, group, 1)
    told = {"-j 8": eight, "elastic, no record": first, "elastic": second, "-j 1": one}
    for what, outcome in told.items():
        print(f"  {what:<20}{outcome}")
    failed = "" if first.survived and second.survived else "a job was killed"
    if not one.survived:
        failed = "-j 1 failed"
    if not eight.kills:
        failed = "-j 8 was not killed: this measures nothing"
    return Row(NAME, REACH, round(second.seconds, 2), round(one.seconds, 2), failed)


def _fixed(part: Part, group: Group, jobs: int) -> Outcome:
    return _timed(part, group, _ninja(part), f"-j{jobs}", "-C", _folder(part), "--quiet", HEAVY)


def _elastic(part: Part, group: Group) -> Outcome:
    program = str(part.yard.inside / "benchmarks" / "elastic_build.py")
    argv = (program, _folder(part), str(PEAKS), _ninja(part), HEAVY)
    return _timed(part, group, f"{VENV}/bin/python", *argv)


def _timed(part: Part, group: Group, *argv: str) -> Outcome:
    """Compile them all, in the group and without a compiler cache."""
    made = part.folder / "caffe2" / "CMakeFiles" / "torch_cpu.dir" / "__" / "aten/src/ATen/native"
    for path in made.glob("*.o"):
        path.unlink()
    env = {"CCACHE_DISABLE": "1", "PYTHONPATH": str(part.yard.inside), "PATH": ":".join(SYSTEM)}
    before, began = group.kills(), time.monotonic()
    with part.yard.debian.start(argv, part.yard.inside, env, by=group.inside()) as child:
        child.communicate()
    took = time.monotonic() - began
    whole = len(list(made.glob("*.o"))) == COUNT
    return Outcome(took, group.kills() - before, child.returncode or int(not whole))


def _folder(part: Part) -> str:
    return str(part.upstream.clone / "build")


def _ninja(part: Part) -> str:
    return str(part.yard.manifest("deps")["ninja"]["path"])
