"""KILL at random moments of every stage, and of the commands beside them: the plain command
finishes, what comes out is what an undisturbed build leaves, and all that is a person's is as it
was.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import subprocess
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.checkout import SHORT
from tests.moments import Moment, kill, kill_at, seconds
from tests.systems import linux_only
from tests.wholeyard import State, Whole

pytestmark = [pytest.mark.integration, linux_only]

LONG = os.environ.get("TORCHYARD_TEST_LONG") == "1"
SEED = 20_261_122
STAGES = ("deps", "source", "env", "compile", "wheel", "extensions", "install", "validate")
# on each of two sides: 200 where `TORCHYARD_TEST_LONG=1` asks for them
EACH = 10 if LONG else 1
COMMANDS = {"lock": 4, "publish": 4, "bundle": 4, "restore": 5, "purge": 3}
LOCK = "torchyard.lock"
COMMAND = {
    "lock": ("lock",),
    "publish": ("publish", "--dest", "../index"),
    "bundle": ("bundle", "--dest", "../bundle"),
    "restore": ("restore", "--yes"),
    "purge": ("purge", "--yes"),
}
# what is done to the yard so that a stage has something to do
NUDGES = {
    "deps": ("venv", "interpreter"),
    "source": ("ref", "patched", "clone"),
    "env": ("switch",),
    "compile": ("switch", "ref", "patched"),
    "wheel": ("switch", "torch", "patched"),
    "extensions": ("answer", "extension"),
    "install": ("answer", "handed"),
    "validate": ("",),
}


class Side:
    """A yard of its own, and its share of the moments."""

    def __init__(self, folder: Path, chance: random.Random, *, edited: bool) -> None:
        self.site = Whole(folder, edited=edited)
        self.chance, self.state = chance, State()
        self.expected: dict[State | int, dict[str, str]] = {}
        self.typical = dict.fromkeys(STAGES, 1.0)
        self.hit: Counter[str] = Counter()
        self.records = self.site.yard.build / "records" / "runs"
        self.site.ask(self.state)
        self.site.yard.must("build")
        self.site.write()
        self.undisturbed(State(switch=True))  # whose wheel is named after the edits
        self.undisturbed(State())

    def undisturbed(self, state: State) -> None:
        """Build it, and keep what comes out."""
        self.go(state)
        self.must_build()
        self.expected.setdefault(state.torch, self.site.torch())
        self.expected.setdefault(state.answer, self.site.toy())

    def go(self, state: State) -> None:
        """Ask for it."""
        if self.site.edited and state.ref != self.state.ref:
            self.site.pull(state)
        self.state = state
        self.site.ask(state)

    def must_build(self) -> str:
        """The plain command, to its end; what each stage took is known then."""
        code, out, pid = self.run("build")
        assert code == 0, out
        for stage, took in seconds(self.records, pid).items():
            self.typical[stage] = took
        return out

    def run(self, *argv: str) -> tuple[int, str, int]:
        """Exit code, what was printed, process id."""
        with self.site.yard.start(*argv) as child:
            out, _ = child.communicate(timeout=600)
        return child.returncode, out, child.pid

    def at(self, stage: str) -> None:
        """One moment in a stage: again where the run was over before."""
        told = ""
        for most in (0.9, 0.4, 0.1):
            nudge = self.chance.choice(NUDGES[stage])
            self.nudge(nudge)
            after = self.typical[stage] * self.chance.uniform(0, most)
            moment = Moment(stage, after, whole=self.chance.random() < 0.5)
            verb = "validate" if stage == "validate" else "build"
            found, out = kill_at(self.site.yard.start(verb), self.records, moment)
            told = f"{moment}, {nudge}, {self.state}: {found or 'too late'}\n{out}"
            print(told.splitlines()[0], flush=True)
            if found:
                self.hit[found] += 1
                return self.finish(verb, told)
        raise AssertionError(told)

    def command(self, name: str) -> None:
        """One moment of a command, which is given again; its result is the first one's."""
        argv, site = COMMAND[name], self.site
        if name == "purge":
            site.yard.must(*COMMAND["restore"])
        self.fresh(name)
        took = self.typical.setdefault(name, 1.2)
        child, whole = site.yard.start(*argv), self.chance.random() < 0.5
        after = self.chance.uniform(0.2, 1) * took
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(after)
        over = child.poll() is not None
        kill(child, whole=whole)
        out, _ = child.communicate(timeout=60)
        told = f"KILL {after:.2f} s into {name}{' (it was over)' * over}\n{out}"
        print(told.splitlines()[0], flush=True)
        self.hit[name] += not over
        began = time.monotonic()
        code, again = site.yard.doit(*argv)
        self.typical[name] = time.monotonic() - began
        assert code == 0, told + again
        assert "Traceback" not in out + again, told + again
        self.require_command(name, told + again)

    def fresh(self, name: str) -> None:
        """Nothing of an earlier one is there."""
        (self.site.yard.folder / LOCK).unlink(missing_ok=True)
        for folder in ("index", "bundle"):
            shutil.rmtree(self.site.folder / folder, ignore_errors=True)
        del name

    def require_command(self, name: str, told: str) -> None:
        """What it is for is there, whole, and nothing that was begun."""
        site, yard = self.site, self.site.yard
        site.require_quiet()
        match name:
            case "lock":
                assert yard.doit("lock", "--check")[0] == 0, told
            case "publish":
                assert yard.doit("publish", "--dest", str(site.folder / "index"), "--check")[0] == 0
            case "bundle":
                held = json.loads((site.folder / "bundle" / "bundle.json").read_text("utf-8"))
                for file, known in held["files"].items():
                    data = (site.folder / "bundle" / file).read_bytes()
                    assert sha256(data).hexdigest() == known["sha256"], told
            case "restore":
                assert site.person.tree() == site.before, told
                self.must_build()
                self.require(told)
            case "purge":
                assert site.person.tree() == site.before, told
                assert not yard.build.exists(), told
                assert not [*(yard.folder / "wheelhouse").glob("*.whl*")], told
                self.must_build()
                site.write()
        self.fresh(name)
        litter = [*yard.folder.glob(".torchyard.lock.*"), *site.folder.glob("*.part*")]
        assert litter == [], told

    def finish(self, verb: str, told: str) -> None:
        """The same command once more ends all of it."""
        assert "Traceback" not in told, told
        code, out, _ = self.run(verb)
        told += out
        assert code == 0, told
        assert "Traceback" not in out, told
        if verb == "build":
            assert "Up to date" in self.site.yard.must(verb), told
        if "clone" in told.partition("\n")[0]:
            self.site.write()
        self.require(told)

    def require(self, told: str) -> None:
        """What is there is what an undisturbed build leaves."""
        self.site.require_theirs()
        self.site.require_quiet()
        for key, now in ((self.state.torch, self.site.torch()), (self.state.answer, self.site.toy())):
            moved = differences(self.expected[key], now)
            assert moved == [], f"{told}\n{moved}"

    def nudge(self, name: str) -> None:
        """Give a stage something to do."""
        site, build = self.site, self.site.yard.build
        match name:
            case "ref" | "patched" | "switch" | "answer":
                self.toggle(name)
            case "venv":
                shutil.rmtree(build / "venv")
            case "interpreter":
                python = build / "venv" / "bin" / "python"
                python.unlink()
                python.symlink_to("/nowhere/python3")
            case "clone" if not site.edited:
                shutil.rmtree(site.clone)
            case "torch":
                (build / "wheel.json").unlink()
            case "extension":
                shutil.rmtree(next((build / "venv").glob("lib/*/site-packages/toyext")))
            case "handed":
                site.person.uninstall("toyext")
            case "clone":
                self.toggle("ref")

    def toggle(self, name: str) -> None:
        other: dict[str, Any] = {"ref": "v2", "patched": True, "switch": True, "answer": 43}
        now = getattr(self.state, name)
        values = {**vars(self.state), name: getattr(State(), name)}
        wanted = State(**values) if now == other[name] else State(**{**values, name: other[name]})
        if wanted.torch not in self.expected or wanted.answer not in self.expected:
            here = self.state
            self.undisturbed(wanted)
            self.undisturbed(here)
        self.go(wanted)


def test_a_kill_anywhere_loses_nothing(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    with ThreadPoolExecutor(2) as sides:  # a yard each, to have both cores at work
        found = [
            sides.submit(one_side, tmp_path / str(side), random.Random(chance.random()), side == 1)
            for side in range(2)
        ]
    hit = sum((side.result() for side in found), Counter[str]())
    print(f"{hit.total()} moments: {dict(hit)}")
    assert all(hit[stage] >= EACH for stage in STAGES), hit


def one_side(folder: Path, chance: random.Random, edited: bool) -> Counter[str]:
    """Its share of the moments, one after the other, in a random order."""
    side, failed = Side(folder, chance, edited=edited), []
    planned = [stage for stage in STAGES for _ in range(EACH)]
    chance.shuffle(planned)
    commands = [name for name, many in COMMANDS.items() for _ in range(many)]
    for act, name in [(side.at, one) for one in planned] + [(side.command, one) for one in commands]:
        try:
            act(name)
        except AssertionError as error:
            failed.append(str(error))
            print(f"FAILED {name}: {error}", flush=True)
    assert not failed, "\n\n".join(failed)
    return side.hit


def differences(before: dict[str, str], now: dict[str, str]) -> list[str]:
    return [
        f"{name}: {before.get(name)} → {now.get(name)}"
        for name in sorted(before | now)
        if before.get(name) != now.get(name)
    ]
