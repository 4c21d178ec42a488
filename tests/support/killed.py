"""A whole yard that is killed again and again: something is given to do to one stage, its run is
ended by KILL in the middle of it, and the plain command is given once more.
"""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.support.checkout import MOMENTS
from tests.support.moments import Moment, kill, kill_at, seconds
from tests.support.wholeyard import State, Whole

LOCK = "torchyard.lock"
# What gives a stage something to do; the first of them leaves what is asked for as it is
NUDGES = {
    "deps": ("interpreter", "venv"),
    "source": ("clone", "ref", "patched"),
    "env": ("env.json", "switch"),
    "compile": ("compile.json", "switch", "ref", "patched"),
    "wheel": ("wheel.json", "switch", "patched"),
    "extensions": ("extension", "answer"),
    "install": ("handed", "answer"),
    "validate": ("",),
}
_OTHER: Mapping[str, Any] = {"ref": "v2", "patched": True, "switch": True, "answer": 43}
COMMANDS: Mapping[str, Sequence[str]] = {
    "lock": ("lock",),
    "publish": ("publish", "--dest", "../index"),
    "bundle": ("bundle", "--dest", "../bundle"),
    "restore": ("restore", "--yes"),
    "purge": ("purge", "--yes"),
}


class Killed:
    """A yard, what comes out of each state of it undisturbed, and the moments that hit it."""

    def __init__(self, folder: Path, chance: random.Random, *, edited: bool) -> None:
        self.site = Whole(folder, edited=edited)
        self.chance, self.state = chance, State()
        self.expected: dict[State | int, dict[str, str]] = {}
        self.typical = dict.fromkeys([*NUDGES, *COMMANDS], 1.0)  # seconds
        self.records = self.site.yard.build / "records" / "runs"
        self.site.ask(self.state)
        self.site.yard.must("source")
        self.site.write()
        self.undisturbed(self.state)

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

    def must_build(self) -> None:
        """The plain command, to its end; what each stage takes is known then."""
        with self.site.yard.start("build") as child:
            out, _ = child.communicate(timeout=600)
        assert child.returncode == 0, out
        self.typical.update(seconds(self.records, child.pid))

    def stage(self, stage: str) -> str:
        """One moment in a stage: again where the run was over before. Which stage it hit."""
        told = ""
        for most in (0.9, 0.4, 0.1):
            nudge = NUDGES[stage][0] if MOMENTS == 1 else self.chance.choice(NUDGES[stage])
            self.nudge(nudge)
            after = self.typical[stage] * self.chance.uniform(0, most)
            moment = Moment(stage, after, whole=self.chance.random() < 0.5)
            verb = "validate" if stage == "validate" else "build"
            found, out = kill_at(self.site.yard.start(verb), self.records, moment)
            told = f"{moment}, {nudge}, {self.state}: {found or 'too late'}\n{out}"
            print(told.splitlines()[0], flush=True)
            if found:
                self.finish(verb, told)
                return found
        raise AssertionError(told)

    def finish(self, verb: str, told: str) -> None:
        """The same command once more ends all of it."""
        code, out = self.site.yard.doit(verb)
        told += out
        assert (code, "Traceback" in told) == (0, False), told
        if verb == "build":
            assert "Up to date" in self.site.yard.must(verb), told
        if not self.site.edited:
            self.site.write()  # a clone that was removed has not what a person wrote
        self.require(told)

    def require(self, told: str) -> None:
        """What is there is what an undisturbed build leaves."""
        self.site.require_theirs()
        self.site.require_quiet()
        found: dict[State | int, dict[str, str]] = {
            self.state.torch: self.site.torch(),
            self.state.answer: self.site.toy(),
        }
        for key, now in found.items():
            moved = differences(self.expected[key], now)
            assert moved == [], f"{told}\n{moved}"

    def nudge(self, name: str) -> None:
        """Give a stage something to do."""
        build = self.site.yard.build
        python = build / "venv" / "bin" / "python"
        match name:
            case "venv":
                shutil.rmtree(build / "venv")
            case "interpreter":
                python.unlink()
                python.symlink_to("/nowhere/python3")
            case "clone" if not self.site.edited:
                shutil.rmtree(self.site.clone)
            case "extension":
                shutil.rmtree(next((build / "venv").glob("lib/*/site-packages/toyext")))
            case "handed":
                self.site.person.uninstall("toyext")
            case _ if name.endswith(".json"):
                (build / name).unlink()
            case _ if name:
                self.toggle(name if name in _OTHER else "ref")

    def toggle(self, name: str) -> None:
        """Ask for the other value of it, whose result is known before anything is killed."""
        here = self.state
        usual = getattr(State(), name)
        value = usual if getattr(here, name) == _OTHER[name] else _OTHER[name]
        wanted = replace(here, **{name: value})
        if not {wanted.torch, wanted.answer} <= self.expected.keys():
            self.undisturbed(wanted)
            self.undisturbed(here)
        self.go(wanted)

    def command(self, name: str) -> str:
        """One moment in a command: again where it was over before. Its name."""
        for most in (1, 0.4, 0.2):
            if self.cut_off(name, self.chance.uniform(0.1, most)):
                return name
        raise AssertionError(f"{name} was over before every KILL")

    def cut_off(self, name: str, after: float) -> bool:
        """KILL to a command, so far into it, and it is given again. Whether it was hit."""
        yard = self.site.yard
        if name == "purge":
            yard.must(*COMMANDS["restore"])
        child = yard.start(*COMMANDS[name])
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(after * self.typical[name])
        kill(child, whole=self.chance.random() < 0.5)
        told, _ = child.communicate(timeout=120)
        print(f"KILL {after:.0%} into {name}: {child.returncode}", flush=True)
        began = time.monotonic()
        code, again = yard.doit(*COMMANDS[name])
        self.typical[name] = time.monotonic() - began
        told += again
        assert (code, "Traceback" in told) == (0, False), told
        self.site.require_quiet()
        self.require_command(name, told)
        self.tidy(told)
        return child.returncode < 0

    def require_command(self, name: str, told: str) -> None:
        """What it is for is there, whole."""
        site, yard = self.site, self.site.yard
        match name:
            case "lock":
                yard.must("lock", "--check")
            case "publish":
                yard.must(*COMMANDS[name], "--check")
            case "bundle":
                held = json.loads((site.folder / "bundle" / "bundle.json").read_text("utf-8"))
                for file, known in held["files"].items():
                    data = (site.folder / "bundle" / file).read_bytes()
                    assert sha256(data).hexdigest() == known["sha256"], told
            case _:
                assert site.person.tree() == site.before, told
                if name == "purge":
                    assert yard.build.exists() is site.edited, told  # the clone stays
                    gone = [line.split()[1] for line in told.splitlines() if "removing" in line]
                    assert not [one for one in gone if Path(one).is_file()], told
                self.must_build()
                if not site.edited:
                    site.write()
                site.require_theirs()

    def tidy(self, told: str) -> None:
        """Nothing that was only begun is left, and nothing of it is there for the next one."""
        litter = [*self.site.yard.folder.glob(f".{LOCK}.*"), *self.site.folder.glob("*.part*")]
        assert litter == [], told
        (self.site.yard.folder / LOCK).unlink(missing_ok=True)
        for folder in ("index", "bundle"):
            shutil.rmtree(self.site.folder / folder, ignore_errors=True)


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """What is not the same in both, by name."""
    return [
        f"{name}: {before.get(name)} → {now.get(name)}"
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name)
    ]
