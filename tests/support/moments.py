"""KILL at a moment of a run that is known by its record: a part of the way into a stage."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil


@dataclass(frozen=True)
class Moment:
    """So many seconds into a stage; `whole` where all that it started dies with doit, as in a power
    cut.
    """

    stage: str
    after: float
    whole: bool

    def __str__(self) -> str:
        whom = "everyone" if self.whole else "doit"
        return f"KILL to {whom} {self.after:.2f} s into {self.stage}"


def kill_at(child: subprocess.Popen[str], records: Path, moment: Moment) -> tuple[str, str]:
    """The stage that it hit, "" where the run was over before, "between" where none was at work;
    and what was printed.
    """
    while child.poll() is None and moment.stage not in begun(records, child.pid):
        time.sleep(0.005)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(moment.after)
    kill(child, whole=moment.whole)
    out, _ = child.communicate(timeout=120)
    if child.returncode != -signal.SIGKILL:
        return "", out
    return next(iter(_at_work(records, child.pid)), "between"), out


def kill(child: subprocess.Popen[str], *, whole: bool) -> None:
    """KILL to doit, or to it and to all of its children, none of whom sees another die."""
    with contextlib.suppress(psutil.NoSuchProcess):
        doit = psutil.Process(child.pid)
        doit.suspend()
        everyone = [doit, *(_children(doit) if whole else ())]
        for process in everyone:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def _children(doit: psutil.Process) -> list[psutil.Process]:
    found = doit.children(recursive=True)
    for process in found:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.suspend()
    return found


def seconds(records: Path, pid: int) -> dict[str, float]:
    """What each stage of a run took."""
    return {
        _room(event): event["seconds"]
        for event in _events(records, pid)
        if event["event"] == "done"
    }


def begun(records: Path, pid: int) -> set[str]:
    """The stages that a run came to."""
    return {_room(event) for event in _events(records, pid) if event["event"] == "stage"}


def _at_work(records: Path, pid: int) -> list[str]:
    events = list(_events(records, pid))
    done = {event["stage"] for event in events if event["event"] == "done"}
    return [_room(one) for one in events if one["event"] == "stage" and one["stage"] not in done]


def _room(event: dict[str, Any]) -> str:
    return str(event["stage"]).partition(":")[0]


def _events(records: Path, pid: int) -> Iterator[dict[str, Any]]:
    for record in records.glob(f"*-{pid}.jsonl"):
        for line in record.read_text("utf-8").splitlines():
            with contextlib.suppress(ValueError):  # as far as it was written
                yield json.loads(line)
