"""The builds of a matrix, one after another, each in a process of its own: what goes wrong in one
costs no other.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tasks.duration import elapsed
from tasks.effects import shell
from tasks.effects.voice import show
from tasks.errors import BuildError, CommandFailedError
from tasks.model import Command
from tasks.reports.matrix.standing import Standing

_DONE = {"up to date", "built"}


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
    todo = {
        "failed": f"doit diagnose profile={left[0].profile}",
        "impossible": "matrix.exclude leaves out what cannot be built here",
        "unpublished": f"doit publish profile={left[0].profile}",
    }
    raise BuildError(
        f"{len(left)} of {len(found)} builds of the matrix are not done: "
        f"{', '.join(one.cell for one in left)}",
        where="matrix",
        todo="; ".join(todo[state] for state in dict.fromkeys(one.state for one in left)),
    )


def _built(root: Path, one: Standing) -> Standing:
    started = time.monotonic()
    try:
        _doit(root, "build", one.profile)
    except CommandFailedError as error:
        return replace(one, state="failed", why=_without_name(error))
    return replace(one, state="built", why=f"in {elapsed(time.monotonic() - started)}")


def _published(root: Path, one: Standing) -> Standing:
    try:
        _doit(root, "publish", one.profile)
    except CommandFailedError as error:
        return replace(one, state="unpublished", why=_without_name(error))
    return one


def _without_name(error: CommandFailedError) -> str:
    """The row has the name already."""
    return error.what.partition(": ")[2] or f"exit {error.code}"


def _doit(root: Path, task: str, profile: str) -> None:
    """It gets the whole environment: settings stand there, too."""
    argv = (sys.executable, "-m", "doit", task, f"profile={profile}")
    env = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    shell.run(Command(argv, env, f"doit {task} profile={profile}", cwd=root), show)
