"""A checkout of our own in a temporary folder, driven as a person does: `doit` in a process."""

from __future__ import annotations

import compileall
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import yaml

ROOT = Path(__file__).parents[2]
NAME = "trial"


@cache
def compile_sources() -> None:
    """Write the bytecode of all modules: each new checkout would compile them again otherwise."""
    compileall.compile_dir(ROOT / "tasks", quiet=2)


class Yard:
    """The checkout, and one profile in it that the test writes. Several may have one checkout.

    `patience` is how many seconds one run of doit may take, `cache` the setting build.cache.
    """

    patience: float | None = 600
    through: tuple[str, ...] = ()  # a program that starts doit
    cache = "off"  # a machine without ccache would fetch one and leave its server at work

    def __init__(self, folder: Path, name: str = NAME) -> None:
        self.folder, self.name = folder, name
        compile_sources()
        for part in ("tasks", "templates", "config"):
            shutil.copytree(
                ROOT / part,
                folder / part,
                ignore=shutil.ignore_patterns(
                    "local.yaml*", "local-*.yaml", "*.pyc.*"
                ),  # half written by another process
                dirs_exist_ok=True,
            )
        shutil.copy(ROOT / "dodo.py", folder)
        self.build = folder / "build" / name

    def profile(self, **settings: Any) -> None:
        """Write the profile."""
        text = yaml.safe_dump(settings)
        (self.folder / "config" / "profiles" / f"{self.name}.yaml").write_text(
            text, encoding="utf-8"
        )

    def start(self, *argv: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """doit, with its output to be read."""
        return subprocess.Popen(
            [*self.through, sys.executable, "-m", "doit", *argv, f"profile={self.name}"],
            cwd=self.folder,
            env={
                **os.environ,
                "CI": "true",
                "TORCHYARD__BUILD__CACHE": self.cache,
                # of the user, whose builds of other checkouts are none of ours
                "TORCHYARD_CACHE_DIR": str(self.folder / "build"),
                "TORCHYARD_CONFIG_DIR": str(self.folder / "user"),
                **(env or {}),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def doit(self, *argv: str, env: Mapping[str, str] | None = None) -> tuple[int, str]:
        """Exit code and everything that was printed."""
        with self.start(*argv, env=env) as child:
            try:
                out, _ = child.communicate(timeout=self.patience)
            except BaseException:
                child.terminate()
                raise
        return child.returncode, out

    def must(self, *argv: str) -> str:
        """The output of a run that has to succeed."""
        code, out = self.doit(*argv)
        assert code == 0, out
        return out

    def manifest(self, name: str) -> Any:
        """What a stage left."""
        path = self.build.joinpath(*f"{name}.json".split(":"))
        return json.loads(path.read_text(encoding="utf-8"))


def kill_when(child: subprocess.Popen[str], sign: Path, number: signal.Signals) -> tuple[int, str]:
    """Send `number` once the file `sign` is there; exit code and output afterwards."""
    wait_for(sign, child)
    child.send_signal(number)
    out, _ = child.communicate(timeout=120)
    return child.returncode, out


def wait_for(sign: Path, child: subprocess.Popen[str]) -> None:
    """Until the file is there, or the process has ended without it."""
    for _ in range(30_000):  # ten minutes: it bounds a hang, on a busy machine, too
        if sign.exists():
            return
        assert child.poll() is None, child.communicate()[0]
        time.sleep(0.02)
    raise AssertionError(f"{sign} did not come")


def processes_with(text: str) -> list[str]:
    """Command lines of processes that have `text` in them, or in the folder they work in."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        line = " ".join(process.info["cmdline"] or ())
        if text in line or text in (process.info["cwd"] or ""):
            found.append(line)
    return found
