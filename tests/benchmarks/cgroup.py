"""A control group with a limit of ours, commands run in it, and how they ended."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Group:
    """A control group of ours, of the version 1 or 2 of the interface."""

    folder: Path
    version: int

    def kills(self) -> int:
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        lines = (self.folder / name).read_text(encoding="ascii").splitlines()
        return int(dict(line.split() for line in lines)["oom_kill"])

    def inside(self, *argv: str) -> list[str]:
        """That command, run within."""
        procs = self.folder / "cgroup.procs"
        return ["/bin/sh", "-c", f'echo $$ > "{procs}" && exec "$@"', "sh", *argv]


@dataclass(frozen=True)
class Outcome:
    """How long it took, how many processes the kernel killed for memory, and the exit code."""

    seconds: float
    kills: int
    code: int

    @property
    def survived(self) -> bool:
        return self.code == 0 and not self.kills

    def __str__(self) -> str:
        end = "survived" if self.survived else "failed"
        return f"{self.seconds:6.1f} s  {self.kills} killed  {end}"


_ROOTS = ((Path("/sys/fs/cgroup/memory"), 1), (Path("/sys/fs/cgroup"), 2))


@contextmanager
def slowed(share: float, name: str) -> Iterator[Group | None]:
    """A group that gets so much of one core at the most, None where none can be made."""
    quota, period = round(share * 100_000), 100_000
    older = {"cpu.cfs_period_us": f"{period}", "cpu.cfs_quota_us": f"{quota}"}
    made = (
        _made(root, version, limits, name)
        for root, version, limits in (
            (Path("/sys/fs/cgroup/cpu"), 1, older),
            (Path("/sys/fs/cgroup"), 2, {"cpu.max": f"{quota} {period}"}),
        )
    )
    group = next(filter(None, made), None)
    try:
        yield group
    finally:
        if group:
            _removed(group.folder)


@contextmanager
def capped(limit_mib: int) -> Iterator[Group | None]:
    """A group with the limit and no swap, None where none can be made."""
    limits = {
        1: {"memory.limit_in_bytes": f"{limit_mib}M", "memory.swappiness": "0"},
        2: {"memory.max": f"{limit_mib}M", "memory.swap.max": "0"},
    }
    made = (_made(root, version, limits[version], "memory") for root, version in _ROOTS)
    group = next(filter(None, made), None)
    try:
        yield group
    finally:
        if group:
            _removed(group.folder)


def _made(root: Path, version: int, limits: Mapping[str, str], name: str) -> Group | None:
    folder = root / f"torchyard-benchmark-{name}-{os.getpid()}"
    try:
        if not (root / "cgroup.procs").exists():
            return None
        folder.mkdir()
    except OSError:
        return None
    try:
        for file, value in limits.items():
            (folder / file).write_text(value, encoding="ascii")
    except OSError:
        _removed(folder)
        return None
    return Group(folder, version)


def _removed(folder: Path) -> None:
    for _ in range(50):
        try:
            folder.rmdir()
        except OSError:
            time.sleep(0.1)
        else:
            return


def timed(group: Group, argv: Sequence[str], env: Mapping[str, str]) -> Outcome:
    """Run it in the group, without what it prints."""
    before, began = group.kills(), time.monotonic()
    child = subprocess.Popen(group.inside(*argv), env=env, stdout=subprocess.DEVNULL)
    code = child.wait()
    return Outcome(time.monotonic() - began, group.kills() - before, code)
