"""KILL at random moments of every stage, and of the commands beside them: the plain command
finishes, what comes out is what an undisturbed build leaves, and all that is a person's is as it
was.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.checkout import MOMENTS
from tests.support.killed import COMMANDS, NUDGES, Killed
from tests.support.systems import linux_only

pytestmark = [pytest.mark.integration, pytest.mark.long, linux_only]

# A file that gets a line for each moment; a run that is given it again tries what is left
KEPT = os.environ.get("TORCHYARD_TEST_KEPT", "")
SEED = 20_261_122
STAGES = tuple(NUDGES)
MANY = {"lock": 4, "publish": 4, "bundle": 4, "restore": 5, "purge": 3}
# One moment a stage, on one of two sides; with MOMENTS so many on each side, and the commands too
COMMANDED = MANY if MOMENTS > 1 else {}
SHARES = (STAGES, STAGES) if MOMENTS > 1 else (STAGES[1::2], STAGES[::2])


def test_a_kill_anywhere_loses_nothing(tmp_path: Path) -> None:
    kept = Path(KEPT) if KEPT else tmp_path / "kept"
    kept.touch()
    with ThreadPoolExecutor(2) as sides:  # a yard each, to have both cores at work
        found = [sides.submit(one_side, tmp_path / str(side), kept, side) for side in (0, 1)]
    hit = Counter(line.split()[2] for line in kept.read_text("utf-8").splitlines())
    print(f"{hit.total()} moments: {dict(sorted(hit.items()))}")
    for side in found:
        side.result()
    assert sum(hit[stage] for stage in STAGES) >= len(STAGES) // 2
    if MOMENTS > 1:
        assert all(hit[stage] >= MOMENTS for stage in STAGES), hit


def one_side(folder: Path, kept: Path, number: int) -> None:
    """Its share of the moments, one after the other: the few of the commands, then those of the
    stages in a random order.
    """
    lines = [line.split() for line in kept.read_text("utf-8").splitlines()]
    had = [aimed for side, aimed, _ in lines if side == str(number)]
    chance = random.Random(f"{SEED} {number} {len(had)}")
    side, failed = Killed(folder, chance, edited=bool(number)), list[str]()
    for name in left(number, had, chance):
        try:
            hit = side.command(name) if name in COMMANDS else side.stage(name)
        except AssertionError as error:
            failed.append(str(error))
            print(f"FAILED {name}: {error}", flush=True)
            continue
        with kept.open("a", encoding="utf-8") as stream:
            stream.write(f"{number} {name} {hit}\n")
    assert not failed, "\n\n".join(failed)


def left(number: int, had: list[str], chance: random.Random) -> list[str]:
    """What is still to be tried, commands first."""
    commands = Counter(COMMANDED) - Counter(had)
    stages = Counter(dict.fromkeys(SHARES[number], MOMENTS)) - Counter(had)
    return [*commands.elements(), *chance.sample([*stages.elements()], stages.total())]
