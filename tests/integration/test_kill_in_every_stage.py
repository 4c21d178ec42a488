"""KILL at random moments of every stage, and of the commands beside them: the plain command
finishes, what comes out is what an undisturbed build leaves, and all that is a person's is as it
was.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.checkout import SHORT
from tests.killed import COMMANDS, NUDGES, Killed
from tests.systems import linux_only

pytestmark = [pytest.mark.integration, linux_only]

LONG = os.environ.get("TORCHYARD_TEST_LONG") == "1"  # 200 moments, an hour or two
SEED = 20_261_122
STAGES = tuple(NUDGES)
MANY = {"lock": 4, "publish": 4, "bundle": 4, "restore": 5, "purge": 3}
# on each of two sides; in CI each side has every other stage
EACH = 10 if LONG else 1
COMMANDED = MANY if LONG else dict.fromkeys(() if SHORT else COMMANDS, 1)


def test_a_kill_anywhere_loses_nothing(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    shares = (STAGES[1::2], STAGES[::2]) if SHORT else (STAGES, STAGES)
    with ThreadPoolExecutor(2) as sides:  # a yard each, to have both cores at work
        found = [
            sides.submit(
                one_side, tmp_path / str(side), random.Random(chance.random()), share, bool(side)
            )
            for side, share in enumerate(shares)
        ]
    hit = sum((side.result() for side in found), Counter[str]())
    print(f"{hit.total()} moments: {dict(sorted(hit.items()))}")
    assert sum(hit[stage] for stage in STAGES) >= len(STAGES) // 2
    if LONG:
        assert all(hit[stage] >= EACH for stage in STAGES), hit


def one_side(
    folder: Path, chance: random.Random, stages: Sequence[str], edited: bool
) -> Counter[str]:
    """Its share of the moments, one after the other: the few of the commands, then those of the
    stages in a random order.
    """
    side, failed = Killed(folder, chance, edited=edited), list[str]()
    planned = [(side.stage, name) for name in stages for _ in range(EACH)]
    chance.shuffle(planned)
    commands = [(side.command, name) for name, many in COMMANDED.items() for _ in range(many)]
    for act, name in [*commands, *planned]:
        try:
            act(name)
        except AssertionError as error:
            failed.append(str(error))
            print(f"FAILED {name}: {error}", flush=True)
    assert not failed, "\n\n".join(failed)
    return side.hit
