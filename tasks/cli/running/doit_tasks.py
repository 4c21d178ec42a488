"""Convert stages to doit tasks.

Only this module, `tasks.cli.running.execute` and the reporter depend on doit. They handle quirks
measured with doit 0.37: one `config_changed` per task, absolute paths as text for both targets and
file_deps, fresh dicts each time, and no manifest may remain while an action runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

from doit import get_initial_workdir
from doit.tools import config_changed

from tasks.cli.help_text import HELP_PAGES
from tasks.cli.running.execute import (
    Session,
    execute_stage,
    is_due,
    list_optional_stages,
    load_stage_module,
)
from tasks.core.canonical_json import convert_to_redacted_json
from tasks.core.model import Plan, Stage

DoitTask = dict[str, Any]


def resolve_user_path(path: str) -> str:
    """Return the absolute path of what the user typed, "" for "".

    Relative paths start at the folder where doit was started: `doit -f` changes the working
    directory.
    """
    expanded = os.path.expanduser(path)  # noqa: PTH111 - Path's raises where there is no such user
    return str(Path(get_initial_workdir() or "", expanded)) if path else ""


def generate_stage_tasks(session: Session) -> Iterator[DoitTask]:
    """Yield a task per stage, the group of extensions, and the tasks `build` and `validate`.

    A stage that is absent from the profile gets a task that prints the reason.
    """
    plan = session.plan
    yield from _generate_group_tasks(plan)  # first: doit adds subtasks to an existing group only
    for stage in plan.stages:
        yield _build_task(session, stage)
    if "validate" not in plan.absent:
        yield _build_task(session, plan.validate)
    for name, reason in plan.absent.items():
        if not any(stage.name == name for stage in plan.stages) and name != "extensions":
            yield _build_absent_task(session, name, reason)


def _generate_group_tasks(plan: Plan) -> Iterator[DoitTask]:
    yield {
        "basename": "extensions",
        "name": None,
        "doc": HELP_PAGES["extensions"].doc,
    }
    yield {
        "basename": "build",
        "actions": None,
        "doc": HELP_PAGES["build"].doc,
        "task_dep": [stage.name for stage in plan.stages],
    }


def _build_task(session: Session, stage: Stage) -> DoitTask:
    kind, _, name = stage.name.partition(":")
    return {
        "basename": kind,
        **({"name": name} if name else {}),
        "doc": stage.doc,
        "actions": [(execute_stage, [session, stage])],
        "file_dep": [str(path) for path in stage.inputs if path not in stage.optional_inputs],
        "targets": [str(path) for path in (*stage.outputs, *stage.extra_outputs)],
        "uptodate": _build_uptodate_checks(session.plan, stage),
        "clean": [(remove_manifests, [stage])],
        "io": {"capture": False},
        "verbosity": 2,
    }


def _build_uptodate_checks(plan: Plan, stage: Stage) -> list[Any]:
    if stage.uptodate_check == "always":
        return [False]
    checks = [
        config_changed(convert_to_redacted_json(stage.fingerprint)),
        lambda: _has_intact_manifests(stage),
    ]
    if (
        stage.optional_inputs
    ):  # doit does not track files that may be missing, or the tasks that write them
        checks.append(
            lambda: (
                not _list_reasons(stage) and not any(map(is_due, list_optional_stages(plan, stage)))
            )
        )
    if stage.uptodate_check == "stale":
        checks.append(lambda: not load_stage_module(stage, "up_to_date").is_stale(stage.job))
    return checks


def _has_intact_manifests(stage: Stage) -> bool:
    from tasks.runlog import stage_record_io  # noqa: PLC0415 - not at load

    return stage_record_io.has_intact_manifests(stage)


def _list_reasons(stage: Stage) -> tuple[str, ...]:
    from tasks.runlog import stage_record_io  # noqa: PLC0415 - not at load

    return stage_record_io.find_rebuild_reasons(stage)


def _build_absent_task(session: Session, name: str, reason: str) -> DoitTask:
    return {
        "basename": name,
        "doc": f"not part of this profile: {reason}",
        "actions": [(session.console.print_line, [f"{name}: not part of this profile: {reason}"])],
        "uptodate": [False],
    }


def list_result_files(stage: Stage) -> tuple[PurePath, ...]:
    """Return the files that `doit clean` removes: manifests, and the JUnit file of validate.

    Work trees, environments and wheels are kept.
    """
    return (*stage.outputs, *(stage.extra_outputs if stage.kind == "validate" else ()))


def remove_manifests(stage: Stage) -> None:
    """Remove the results of a stage for `doit clean`."""
    from tasks.system import manifests  # noqa: PLC0415 - nothing of this is needed when all is up to date

    manifests.remove_manifests(*list_result_files(stage))
