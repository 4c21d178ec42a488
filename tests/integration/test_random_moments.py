"""Eight random moments of a build, ended by INT, TERM and KILL: the same command finishes each.
KILL in every stage has a test of its own (test_kill_in_every_stage.py).
"""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from itertools import cycle
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.integration.conftest import commit, git, source_profile
from tests.support.checkout import MOMENTS as FACTOR
from tests.support.smallsources import add_small_sources, set_value
from tests.support.toytree import make_tree
from tests.support.yard import Yard, processes_with

pytestmark = [
    pytest.mark.integration,
    pytest.mark.long,
    pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals"),
]

SEED = 20_261_121
SIDES = 2
# on each side: of a run to the libraries, and to the wheel
MOMENTS = {"compile": 3 * FACTOR, "build": FACTOR}
Outcomes = dict[tuple["State", str], dict[str, Any]]


@dataclass(frozen=True)
class State:
    """What is asked for: the value that the sources have, and the switch."""

    value: int
    switch: bool

    def ask(self, yard: Yard, tree: Path) -> None:
        set_value(tree, self.value)
        # without it CMake leaves an installed library that is less than a second older
        always = {"CMAKE_INSTALL_ALWAYS": "1"}
        build = {"flags": {"USE_MANY": self.switch}, "env": always}
        yard.profile(**source_profile(tree), build=build)


# From one to the next either the value changes, which Ninja sees, or the switch, which CMake has to
STATES = (State(1, False), State(2, False), State(2, True), State(1, True))
WAYS = (
    (signal.SIGINT, "doit"),
    (signal.SIGTERM, "doit"),
    (signal.SIGKILL, "doit"),
    (signal.SIGKILL, "ninja"),
)


@dataclass(frozen=True)
class Moment:
    """When which run is ended, and how; where `whom` is not at work yet, doit is."""

    verb: str
    after: float
    number: signal.Signals
    whom: str

    def __str__(self) -> str:
        return f"{self.number.name} to {self.whom} after {self.after:.2f} s of doit {self.verb}"


def moments(seconds: Mapping[str, float], chance: random.Random) -> list[Moment]:
    """Spread over each run, in a random order."""
    ways = cycle(chance.sample(WAYS, len(WAYS)))
    found = [
        Moment(verb, seconds[verb] * (part + chance.random()) / count, *next(ways))
        for verb, count in MOMENTS.items()
        for part in range(count)
    ]
    chance.shuffle(found)
    return found


def test_a_build_that_is_ended_at_random_moments_finishes_each_time(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    with ThreadPoolExecutor(SIDES) as sides:  # a checkout each, to have both cores at work
        found = [
            sides.submit(one_side, tmp_path / str(side), random.Random(chance.random()))
            for side in range(SIDES)
        ]
    assert sum(side.result() for side in found) == SIDES * sum(MOMENTS.values())


def one_side(folder: Path, chance: random.Random) -> int:
    """Its share of the moments, one after the other; how many that were."""
    tree = make_tree(folder / "pytorch")
    add_small_sources(tree)
    git(tree, "init", "-q", "-b", "main")
    commit(tree, "first")
    yard = Yard(folder / "checkout")
    expected, seconds = undisturbed(yard, tree)
    found = moments(seconds, chance)
    for moment, state in zip(found, cycle(STATES), strict=False):
        state.ask(yard, tree)
        told = f"{moment}\n{end_at(yard, tree, moment)}"
        assert not is_traced(yard, told), told
        code, finished = yard.doit(moment.verb)
        told += finished
        assert code == 0, told
        assert "Traceback" not in finished, told
        assert "Up to date" in yard.must(moment.verb), told
        assert products(yard, moment.verb) == expected[state, moment.verb], told
        assert at_work(yard) == [], told
        assert [*folder.rglob(".lock.pid")] == [], told
    return len(found)


def undisturbed(yard: Yard, tree: Path) -> tuple[Outcomes, dict[str, float]]:
    """What comes out of each state, and the seconds of a run that has something to do."""
    expected: Outcomes = {}
    seconds: dict[str, float] = {}
    for state in STATES:
        state.ask(yard, tree)
        for verb in MOMENTS:
            began = time.monotonic()
            yard.must(verb)
            seconds[verb] = time.monotonic() - began
            expected[state, verb] = products(yard, verb)
    seconds["build"] += seconds["compile"]  # most of its part was done there
    return expected, seconds


def products(yard: Yard, verb: str) -> dict[str, Any]:
    """What a run is for: the manifest of compile, and after `build` the installed libraries."""
    found = {"compile": yard.manifest("compile")}
    if verb == "build":
        folder = Path(yard.manifest("wheel")["folder"]) / "lib"
        found |= {path.name: sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    return found


def end_at(yard: Yard, tree: Path, moment: Moment) -> str:
    """What the run printed until it was ended; whoever can end in order leaves nobody at work."""
    child = yard.start(moment.verb)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(moment.after)
    ninja = next(ninjas(tree), None) if moment.whom == "ninja" else None
    with contextlib.suppress(psutil.NoSuchProcess):
        (ninja or child).send_signal(moment.number)
    out, _ = child.communicate(timeout=120)
    if child.returncode != -signal.SIGKILL:
        assert at_work(yard) == [], f"{moment}\n{out}"
    return f"{out}\nexit code {child.returncode}\n"


def ninjas(tree: Path) -> Iterator[psutil.Process]:
    """Ninja at work in the tree."""
    for process in psutil.process_iter(["name", "cwd"]):
        if process.info["name"] == "ninja" and str(tree) in (process.info["cwd"] or ""):
            yield process


def at_work(yard: Yard) -> list[str]:
    """Processes of the yard and of the tree beside it."""
    return processes_with(str(yard.folder.parent))


def is_traced(yard: Yard, out: str) -> bool:
    """Whether there is a traceback that has to do with us: an INT that comes before dodo.py is
    read is Python's to tell.
    """
    return "Traceback" in out and f'File "{yard.folder}' in out
