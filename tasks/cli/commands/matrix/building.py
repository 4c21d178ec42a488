"""The builds of a matrix, one after another, each in a process of its own: what goes wrong in one
costs no other.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from tasks.cli.commands.matrix.standing import EntryStatus
from tasks.core.errors import CommandFailedError, TorchyardError
from tasks.core.formatting.duration import format_duration
from tasks.core.model import Command
from tasks.system import shell
from tasks.system.voice import print_report

_DONE_STATES = {"up to date", "built"}
_STATE_HINTS = {
    "failed": "doit diagnose profile={}",
    "impossible": "matrix.exclude leaves out what cannot be built here",
    "unpublished": "doit publish profile={}",
}


def build_entries(root: Path, found: Sequence[EntryStatus]) -> Iterator[EntryStatus]:
    """Build what is not up to date, in order, and say what came of each."""
    due = [one for one in found if one.state not in {"up to date", "impossible"}]
    for one in found:
        if one in due:
            print_report(f"{due.index(one) + 1} of {len(due)}: {one.cell}")
        yield _build_entry(root, one) if one in due else one


def publish_entries(root: Path, found: Sequence[EntryStatus]) -> Iterator[EntryStatus]:
    """Put the wheels of all that are built onto the index; what is there already costs a look."""
    for one in found:
        yield _publish_entry(root, one) if one.state in _DONE_STATES else one


def require_all_done(found: Sequence[EntryStatus]) -> None:
    """Raise `BuildError` where one is not done."""
    left = [one for one in found if one.state not in _DONE_STATES]
    if not left:
        return
    first = {one.state: one for one in reversed(left)}
    raise TorchyardError(
        f"{len(left)} of {len(found)} builds of the matrix are not done: "
        f"{', '.join(one.cell for one in left)}",
        location="matrix",
        hint="; ".join(
            _STATE_HINTS[state].format(one.profile) for state, one in sorted(first.items())
        ),
    )


def _build_entry(root: Path, one: EntryStatus) -> EntryStatus:
    started = time.monotonic()
    if why := _run_doit(root, "build", one.profile):
        return replace(one, state="failed", why=why)
    return replace(one, state="built", why=f"in {format_duration(time.monotonic() - started)}")


def _publish_entry(root: Path, one: EntryStatus) -> EntryStatus:
    why = _run_doit(root, "publish", one.profile)
    return replace(one, state="unpublished", why=why) if why else one


def _run_doit(root: Path, task: str, profile: str) -> str:
    """Why it failed, "" where it did not. It gets all the environment, settings too."""
    argv = (sys.executable, "-m", "doit", task, f"profile={profile}")
    env = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    said: list[str] = []

    def keep_line(line: str) -> None:
        said.append(line.strip())
        print_report(line)

    try:
        shell.run_command(Command(argv, env, f"doit {task} profile={profile}", cwd=root), keep_line)
    except CommandFailedError as error:
        return _extract_failure_reason(said) or f"exit {error.code}"
    return ""


def _extract_failure_reason(said: Sequence[str]) -> str:
    """What stands below the first stage that failed; without one, what was refused at load."""
    failed = (line for before, line in pairwise(said) if before.startswith("Failed "))
    refused = (line.removeprefix("ERROR: ") for line in said if line.startswith("ERROR: "))
    return next(failed, "") or next(refused, "")
