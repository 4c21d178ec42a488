"""Stages as doit tasks, and the one way a stage is executed.

With the console this is the only place that knows doit. Measured quirks of doit 0.37 that are
minded here: one `config_changed` per task, absolute paths as text for both targets and file_deps,
fresh dicts each time, and no claim left standing while an action is at work.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from doit.exceptions import TaskFailed
from doit.tools import config_changed

from tasks import __version__
from tasks.console import Console, Outcome
from tasks.digest import shown
from tasks.errors import BuildError, NoSpaceError
from tasks.model import Layout, Plan, Stage
from tasks.rooms import room

Task = dict[str, Any]
_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)


@dataclass
class Yard:
    """One run over one profile: its plan, its console, and the lock that is taken with the first
    action. `gate` raises a `BuildError` for what would stop a build; it is asked once, by the first
    stage that really has something to do.
    """

    plan: Plan
    layout: Layout
    console: Console
    pin: Callable[[], None]
    gate: Callable[[], None] = lambda: None
    held: ExitStack = field(default_factory=ExitStack)
    entered: bool = False
    passed: bool = False


def stage_tasks(yard: Yard) -> Iterator[Task]:
    """A task for each stage, a group for the extensions, and the two a person types: build and
    validate.
    """
    plan = yard.plan
    yield from _groups(plan)  # first: doit puts a subtask into a group that is there already
    for stage in plan.stages:
        yield _task(yard, stage)
    if "validate" not in plan.absent:
        yield {**_task(yard, plan.validate), "task_dep": ["build"]}
    for name, reason in plan.absent.items():
        if not any(stage.name == name for stage in plan.stages) and name != "extensions":
            yield _absent(yard, name, reason)


def _groups(plan: Plan) -> Iterator[Task]:
    extensions = [stage.name for stage in plan.stages if stage.room == "extensions"]
    yield {
        "basename": "extensions",
        "name": None,
        "doc": "build, check and install each extension against the torch that was installed",
    }
    yield {
        "basename": "build",
        "actions": None,
        "doc": "everything of this profile up to date, through extensions (the default)",
        "task_dep": [stage.name for stage in plan.stages if stage.room != "extensions"]
        + extensions,
    }


def _task(yard: Yard, stage: Stage) -> Task:
    room, _, name = stage.name.partition(":")
    return {
        "basename": room,
        **({"name": name} if name else {}),
        "doc": stage.doc,
        "actions": [(execute, [yard, stage])],
        "file_dep": [str(path) for path in stage.reads],
        "targets": [str(path) for path in (*stage.leaves, *stage.also)],
        "uptodate": _uptodate(stage),
        "clean": [(withdraw_manifests, [stage])],
        "io": {"capture": False},
        "verbosity": 2,
    }


def _uptodate(stage: Stage) -> list[Any]:
    if stage.asks == "always":
        return [False]
    unchanged = config_changed(shown(stage.inputs))
    if stage.asks == "moved":
        return [unchanged, lambda: not room(stage, "moved").moved(stage.job)]
    return [unchanged]


def _absent(yard: Yard, name: str, reason: str) -> Task:
    return {
        "basename": name,
        "doc": f"not part of this profile: {reason}",
        "actions": [(yard.console.say, [f"{name}: not part of this profile: {reason}"])],
        "uptodate": [False],
    }


def execute(yard: Yard, stage: Stage) -> TaskFailed | None:
    """Do one stage: withdraw its claim, act, publish. A `BuildError` becomes a failed task,
    anything else stays a bug.
    """
    from tasks.effects import manifests, records  # noqa: PLC0415 - nothing of this is needed when all is up to date

    try:
        _pass(yard, stage)
        _enter(yard)
        reason = records.reason(stage)
        yard.console.begin(stage, reason)
        started = time.monotonic()
        before = [_bytes(path) for path in stage.leaves]
        if stage.asks != "always":
            manifests.withdraw(*stage.leaves)
        outputs = room(stage, "action").run(stage.job)
        for path, output in zip(stage.leaves, outputs, strict=True):
            manifests.publish(path, output)
        records.write(stage, reason, time.monotonic() - started, __version__)
        changed = before != [_bytes(path) for path in stage.leaves]
        yard.console.end(stage, reason, _outcome(outputs, changed=changed))
    except BuildError as error:
        return TaskFailed(str(error))
    except OSError as error:
        told = _of_the_disk(error)
        if told is None:
            raise
        return TaskFailed(str(told))
    return None


def _of_the_disk(error: OSError) -> BuildError | None:
    """What a person can do something about; None where it is a bug of ours."""
    where = str(error.filename)
    if error.errno == errno.ENOSPC:
        return NoSpaceError("the disk is full", where=where, todo="free some room")
    if error.errno in _NOT_WRITABLE:
        todo = "see that this place can be written to, or choose another one in the settings"
        return BuildError(str(error.strerror).lower(), where=where, todo=todo)
    return None


def _outcome(outputs: Any, *, changed: bool) -> Outcome:
    if getattr(outputs[0], "status", "") == "unreachable":
        return "skipped"
    return "changed" if changed else "unchanged"


def failing(act: Callable[..., None], **params: Any) -> TaskFailed | None:
    """An action outside the stages, its expected failures told the same way."""
    try:
        act(**params)
    except BuildError as error:
        return TaskFailed(str(error))
    return None


def _pass(yard: Yard, stage: Stage) -> None:
    """Ask the gate, unless a stage only looks (a tree each time, a build that is there)."""
    only_looks = stage.asks == "always" and all(map(_bytes, stage.leaves))
    if yard.passed or only_looks or stage.room == "validate":
        return
    yard.gate()
    yard.passed = True


def _enter(yard: Yard) -> None:
    """What the first action of a run does for all of them: own the build folder, lock it, pin the
    host.
    """
    if yard.entered:
        return
    from tasks.effects import files  # noqa: PLC0415 - nothing of this is needed when all is up to date

    files.own(yard.layout.build)
    yard.held.enter_context(files.lock(yard.layout.build))
    yard.pin()
    yard.entered = True


def withdraw_manifests(stage: Stage) -> None:
    """What `doit clean` does: claims go, work trees and environments stay."""
    from tasks.effects import manifests  # noqa: PLC0415 - nothing of this is needed when all is up to date

    manifests.withdraw(*stage.leaves)


def _bytes(path: PurePath) -> bytes:
    file = Path(path)
    return file.read_bytes() if file.is_file() else b""
