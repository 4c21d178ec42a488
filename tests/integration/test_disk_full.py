"""The disk is full in the middle of each stage: the run says so and where, nothing half written is
taken for whole, and with room the plain command finishes.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.support.checkout import MOMENTS
from tests.support.killed import NUDGES, Killed
from tests.support.moments import begun
from tests.support.smalldisk import Disk, disk, lacks

pytestmark = [
    pytest.mark.integration,
    pytest.mark.long,
    pytest.mark.skipif(bool(lacks()), reason=lacks() or "runs"),
]


def test_a_disk_that_fills_up_in_a_stage_costs_that_run_alone(tmp_path: Path) -> None:
    with disk(tmp_path / "disk") as small:
        side = Killed(small.folder / "yard", random.Random(1), edited=False)
        full_before(side, small)
        for stage in NUDGES:
            for nudge in NUDGES[stage][:MOMENTS]:
                one(side, small, stage, nudge)


def full_before(side: Killed, small: Disk) -> None:
    """The disk is full before anything begins."""
    side.nudge("switch")
    small.fill()
    code, out = side.site.yard.doit("build")
    again, up_to_date = side.site.yard.doit("list")
    small.empty()
    assert (code, again) == (1, 0), out + up_to_date
    assert "Traceback" not in out, out
    assert "free some disk space" in out or "a disk is full" in out, out
    side.finish("build", out)


def one(side: Killed, small: Disk, stage: str, nudge: str) -> None:
    """The disk is filled when the stage begins."""
    side.nudge(nudge)
    verb = "validate" if stage == "validate" else "build"
    child = side.site.yard.start(verb)
    while child.poll() is None and stage not in begun(side.records, child.pid):
        time.sleep(0.002)
    small.fill()
    out, _ = child.communicate(timeout=300)
    small.empty()
    told = f"{stage}, {nudge}: exit code {child.returncode}\n{out}"
    print(told, flush=True)
    assert child.returncode in {0, 1}, told
    assert "Traceback" not in out, told
    if child.returncode:
        assert str(small.folder) in out, told
        assert "free some disk space" in out or "a disk is full" in out, told
    side.finish(verb, told)
