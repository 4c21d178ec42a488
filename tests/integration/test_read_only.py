"""A folder that cannot be written to, be it by root: it is named, and nothing is lost by it."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.killed import Killed
from tests.support.smalldisk import lacks

pytestmark = [
    pytest.mark.integration,
    pytest.mark.long,
    pytest.mark.skipif(bool(lacks()), reason=lacks() or "runs"),
]
# with what a run then has to write there
PLACES = {
    "build/trial": "switch",
    "build/trial/records": "switch",
    "build/trial/src/pytorch": "patched",
    "build/trial/venv": "extension",
    "wheelhouse": "switch",
    "../person": "answer",
}

CODES = {
    "build/trial/records": 0,
    "../person": 3,
}  # a record ends no run; install.into is a setting


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """For the block, by a mount over itself."""
    for argv in (("--bind", folder, folder), ("-o", "remount,ro,bind", folder)):
        subprocess.run(["mount", *map(str, argv)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_folder_that_is_read_only_is_named_and_costs_that_run_alone(tmp_path: Path) -> None:
    side = Killed(tmp_path / "yard", random.Random(1), edited=False)
    for place, nudge in PLACES.items():
        folder = (side.site.yard.folder / place).resolve()
        side.nudge(nudge)
        with read_only(folder):
            code, out = side.site.yard.doit("build")
        told = f"{place}, {nudge}: exit code {code}\n{out}"
        print(told, flush=True)
        assert "Traceback" not in out, told
        assert str(folder) in out, told
        assert code == CODES.get(place, 1), told
        side.finish("build", told)
