"""Builds by a real Ninja whose jobs sleep, and say when they began and ended."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

from tasks.effects import leftovers

_BESIDE = Path(sys.executable).with_name("ninja")
NINJA = str(_BESIDE) if _BESIDE.exists() else shutil.which("ninja") or "ninja"


class Build:
    """`count` jobs of so many seconds; `command` takes the place of the sleep."""

    def __init__(self, folder: Path, count: int, seconds: float = 0.3, command: str = "") -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self._log = folder / "log"
        work = command or f"sleep {seconds}"
        lines = [
            "rule work",
            f"  command = echo 1 >> log; {work}; echo -1 >> log; : > $out # -o $out",
        ]
        self.objects = [f"{number}.o" for number in range(count)]
        lines += [f"build {name}: work" for name in self.objects]
        (folder / "build.ninja").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def start(
        self, environment: dict[str, str], run: str = leftovers.RUN
    ) -> subprocess.Popen[bytes]:
        """Ninja at work, as a build of this run."""
        env = {**os.environ, **environment, leftovers.MARK: run}
        argv = [NINJA, "-C", str(self.folder), "--quiet"]
        return subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL)

    def steps(self) -> list[int]:
        """1 for each job that began, -1 for each that ended, in their order."""
        text = self._log.read_text(encoding="utf-8") if self._log.exists() else ""
        return [int(line) for line in text.split()]

    def at_once(self) -> list[int]:
        """How many were at work after each step."""
        return list(accumulate(self.steps()))

    def made(self) -> int:
        return len(list(self.folder.glob("*.o")))


def wait_for(what: Callable[[], object], patience: float = 20.0) -> None:
    """Until it holds; this machine may be at work on other things."""
    until = time.monotonic() + patience
    while not what():
        assert time.monotonic() < until, "it did not come to that in time"
        time.sleep(0.02)


def stopped(folder: Path) -> int:
    """How many processes that work in the folder are stopped."""
    count = 0
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and (entry / "cwd").readlink() == folder:
                count += (entry / "stat").read_text().rpartition(")")[2].split()[0] == "T"
        except OSError:
            continue
    return count
