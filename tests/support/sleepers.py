"""Builds by a real Ninja whose jobs sleep, and say when they began and ended."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any

from tasks.system import process_group

_NAME = "ninja.exe" if sys.platform == "win32" else "ninja"
_BESIDE = Path(sys.executable).with_name(_NAME)
NINJA = str(_BESIDE) if _BESIDE.exists() else shutil.which("ninja") or "ninja"
_SLOWER = 3  # a process starts there in as much time as a short job takes here
# A job where there is no shell: a file for each step, since two who add to one lose lines there
_JOB = """
import sys, time
from pathlib import Path
seconds, mib, out = float(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[4])
out.with_suffix(".begun").write_text(str(time.perf_counter_ns()))
held = bytearray(mib << 20)
time.sleep(seconds)
out.with_suffix(".ended").write_text(str(time.perf_counter_ns()))
out.touch()
"""


@contextmanager
def watching(pool: Path) -> Iterator[Any]:
    """The tokens of the pool in a folder, for one who is not in it."""
    if sys.platform == "win32":
        from tasks.jobs.windows_tokens_io import TokenSemaphore, compute_semaphore_name  # noqa: PLC0415

        watch = TokenSemaphore(compute_semaphore_name(pool))
    else:
        from tasks.jobs.posix_tokens_io import TokenPipe  # noqa: PLC0415

        watch = TokenPipe(pool / "tokens")
    with closing(watch):
        yield watch


class Build:
    """`count` jobs of so many seconds and MiB each; `command` takes their place. They tell in
    `log`, which several builds may have in common.
    """

    def __init__(
        self,
        folder: Path,
        count: int,
        seconds: float = 0.3,
        *,
        command: str = "",
        mib: int = 0,
        log: Path | None = None,
    ) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self._log = log or folder / "log"
        self.objects = [f"{number}.o" for number in range(count)]
        lines = ["rule work", f"  command = {self._work(seconds, mib, command)}"]
        lines += [f"build {name}: work" for name in self.objects]
        (folder / "build.ninja").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def _work(self, seconds: float, mib: int, command: str) -> str:
        if sys.platform == "win32":
            (self.folder / "job.py").write_text(_JOB, encoding="utf-8")
            return command or f"{sys.executable} -S -E job.py {_SLOWER * seconds} {mib} -o $out"
        hold = (
            f"{sys.executable} -S -c 'b=bytearray({mib}<<20); import time; time.sleep({seconds})'"
        )
        work = command or (hold if mib else f"sleep {seconds}")
        return f"echo 1 >> {self._log}; {work}; echo -1 >> {self._log}; : > $out # -o $out"

    def start(
        self, environment: dict[str, str], run: str = process_group.RUN_ID
    ) -> subprocess.Popen[bytes]:
        """Ninja at work, as a build of this run."""
        env = {**os.environ, **environment, process_group.RUN_VARIABLE: run}
        argv = [NINJA, "-C", str(self.folder), "--quiet"]
        return subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL)

    def steps(self) -> list[int]:
        """1 for each job that began, -1 for each that ended, in their order."""
        if sys.platform == "win32":
            return [step for _, step in sorted(self._stamped())]
        text = self._log.read_text(encoding="utf-8") if self._log.exists() else ""
        return [int(line) for line in text.split()]

    def _stamped(self) -> Iterator[tuple[int, int]]:
        for suffix, step in (("begun", 1), ("ended", -1)):
            for path in self.folder.glob(f"*.{suffix}"):
                if told := path.read_text(encoding="utf-8"):
                    yield int(told), step

    def at_once(self) -> list[int]:
        """How many were at work after each step."""
        return list(accumulate(self.steps()))

    def made(self) -> int:
        return len(list(self.folder.glob("*.o")))


def at_once_in(*builds: Build) -> list[int]:
    """How many were at work in all of them after each step; they have one log."""
    if sys.platform == "win32":
        stamped = sorted(one for build in builds for one in build._stamped())
        return list(accumulate(step for _, step in stamped))
    return builds[0].at_once()


def until(sign: Path) -> str:
    """What jobs do until the file is there. Where there is no shell they take their seconds."""
    return "" if sys.platform == "win32" else f"until test -e {sign}; do sleep 0.05; done"


def wait_for(what: Callable[[], object], patience: float = 120.0) -> None:
    """Until it holds; this machine may be at work on other things, and only a hang comes to the end
    of the patience.
    """
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
