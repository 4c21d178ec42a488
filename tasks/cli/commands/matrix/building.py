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

from tasks.cli.commands.matrix.standing import Standing
from tasks.core.errors import BuildError, CommandFailedError
from tasks.core.formatting.duration import elapsed
from tasks.core.model import Command
from tasks.system import shell
from tasks.system.voice import show

_DONE = {"up to date", "built"}
_TODO = {
    "failed": "doit diagnose profile={}",
    "impossible": "matrix.exclude leaves out what cannot be built here",
    "unpublished": "doit publish profile={}",
}


def build(root: Path, found: Sequence[Standing]) -> Iterator[Standing]:
    """Build what is not up to date, in order, and say what came of each."""
    due = [one for one in found if one.state not in {"up to date", "impossible"}]
    for one in found:
        if one in due:
            show(f"{due.index(one) + 1} of {len(due)}: {one.cell}")
        yield _built(root, one) if one in due else one


def publish(root: Path, found: Sequence[Standing]) -> Iterator[Standing]:
    """Put the wheels of all that are built onto the index; what is there already costs a look."""
    for one in found:
        yield _published(root, one) if one.state in _DONE else one


def require_all(found: Sequence[Standing]) -> None:
    """Raise `BuildError` where one is not done."""
    left = [one for one in found if one.state not in _DONE]
    if not left:
        return
    first = {one.state: one for one in reversed(left)}
    raise BuildError(
        f"{len(left)} of {len(found)} builds of the matrix are not done: "
        f"{', '.join(one.cell for one in left)}",
        where="matrix",
        todo="; ".join(_TODO[state].format(one.profile) for state, one in sorted(first.items())),
    )


def _built(root: Path, one: Standing) -> Standing:
    started = time.monotonic()
    if why := _doit(root, "build", one.profile):
        return replace(one, state="failed", why=why)
    return replace(one, state="built", why=f"in {elapsed(time.monotonic() - started)}")


def _published(root: Path, one: Standing) -> Standing:
    why = _doit(root, "publish", one.profile)
    return replace(one, state="unpublished", why=why) if why else one


def _doit(root: Path, task: str, profile: str) -> str:
    """Why it failed, "" where it did not. It gets all the environment, settings too."""
    argv = (sys.executable, "-m", "doit", task, f"profile={profile}")
    env = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    said: list[str] = []

    def take(line: str) -> None:
        said.append(line.strip())
        show(line)

    try:
        shell.run(Command(argv, env, f"doit {task} profile={profile}", cwd=root), take)
    except CommandFailedError as error:
        return _reason(said) or f"exit {error.code}"
    return ""


def _reason(said: Sequence[str]) -> str:
    """What stands below the first stage that failed; without one, what was refused at load."""
    failed = (line for before, line in pairwise(said) if before.startswith("Failed "))
    refused = (line.removeprefix("ERROR: ") for line in said if line.startswith("ERROR: "))
    return next(failed, "") or next(refused, "")
