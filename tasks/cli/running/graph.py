"""Stages as doit tasks.

With `tasks.cli.running.execution` and the reporter this is the only place that knows doit. Measured
quirks of doit 0.37 that are minded here: one `config_changed` per task, absolute paths as text for
both targets and file_deps, fresh dicts each time, and no claim left standing while an action is at
work.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

from doit import get_initial_workdir
from doit.tools import config_changed

from tasks.cli.help.text import PAGES
from tasks.cli.running.execution import Yard, execute, is_due, optional_stages
from tasks.cli.running.rooms import room
from tasks.core.digest import shown
from tasks.core.model import Plan, Stage

Task = dict[str, Any]


def from_where(path: str) -> str:
    """A path that a person typed, from the folder where doit was started: `doit -f` leaves it."""
    typed = os.path.expanduser(path)  # noqa: PTH111 - Path's raises where there is no such user
    return str(Path(get_initial_workdir() or "", typed)) if path else ""


def stage_tasks(yard: Yard) -> Iterator[Task]:
    """A task for each stage, a group for the extensions, and the two a person types: build and
    validate.
    """
    plan = yard.plan
    yield from _groups(plan)  # first: doit puts a subtask into a group that is there already
    for stage in plan.stages:
        yield _task(yard, stage)
    if "validate" not in plan.absent:
        yield _task(yard, plan.validate)
    for name, reason in plan.absent.items():
        if not any(stage.name == name for stage in plan.stages) and name != "extensions":
            yield _absent(yard, name, reason)


def _groups(plan: Plan) -> Iterator[Task]:
    yield {
        "basename": "extensions",
        "name": None,
        "doc": PAGES["extensions"].doc,
    }
    yield {
        "basename": "build",
        "actions": None,
        "doc": PAGES["build"].doc,
        "task_dep": [stage.name for stage in plan.stages],
    }


def _task(yard: Yard, stage: Stage) -> Task:
    room, _, name = stage.name.partition(":")
    return {
        "basename": room,
        **({"name": name} if name else {}),
        "doc": stage.doc,
        "actions": [(execute, [yard, stage])],
        "file_dep": [str(path) for path in stage.reads if path not in stage.may_lack],
        "targets": [str(path) for path in (*stage.leaves, *stage.also)],
        "uptodate": _uptodate(yard.plan, stage),
        "clean": [(withdraw_manifests, [stage])],
        "io": {"capture": False},
        "verbosity": 2,
    }


def _uptodate(plan: Plan, stage: Stage) -> list[Any]:
    if stage.asks == "always":
        return [False]
    checks = [config_changed(shown(stage.inputs)), lambda: _intact(stage)]
    if (
        stage.may_lack
    ):  # doit does not track files that may be missing, or the tasks that write them
        checks.append(
            lambda: not _reasons(stage) and not any(map(is_due, optional_stages(plan, stage)))
        )
    if stage.asks == "moved":
        checks.append(lambda: not room(stage, "moved").moved(stage.job))
    return checks


def _intact(stage: Stage) -> bool:
    from tasks.runlog import records  # noqa: PLC0415 - not at load

    return records.intact(stage)


def _reasons(stage: Stage) -> tuple[str, ...]:
    from tasks.runlog import records  # noqa: PLC0415 - not at load

    return records.reasons(stage)


def _absent(yard: Yard, name: str, reason: str) -> Task:
    return {
        "basename": name,
        "doc": f"not part of this profile: {reason}",
        "actions": [(yard.console.say, [f"{name}: not part of this profile: {reason}"])],
        "uptodate": [False],
    }


def results(stage: Stage) -> tuple[PurePath, ...]:
    """Return the files of a stage that `doit clean` removes: its manifests, and validate's file for
    other programs; not work trees, environments or wheels.
    """
    return (*stage.leaves, *(stage.also if stage.room == "validate" else ()))


def withdraw_manifests(stage: Stage) -> None:
    """Remove the results of a stage, as `doit clean` does."""
    from tasks.system import manifests  # noqa: PLC0415 - nothing of this is needed when all is up to date

    manifests.withdraw(*results(stage))
