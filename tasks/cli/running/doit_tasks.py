"""Convert stages to doit tasks.

doit 0.37 needs one `config_changed` per task, absolute paths of type str, and new dicts in each
call. The manifests of a stage must not exist while it runs.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from doit import get_initial_workdir
from doit.tools import config_changed

from tasks.cli.help_text import HELP_PAGES
from tasks.cli.running import execute
from tasks.core.canonical_json import convert_to_redacted_json
from tasks.core.model import Plan, Stage
from tasks.system.invocation import read_start_folder

DoitTask = dict[str, Any]


def resolve_user_path(path: str) -> str:
    """Return the absolute path of a path that the user typed, or "" for an empty text.

    A relative path starts at the folder where torchyard or doit was started.
    """
    expanded = os.path.expanduser(path)  # noqa: PTH111 - Path's raises where there is no such user
    start = read_start_folder() or get_initial_workdir() or ""
    return str(Path(start, expanded)) if path else ""


def generate_stage_tasks(session: execute.Session) -> Iterator[DoitTask]:
    """Yield a task per stage, the group `extensions`, and the task `build`."""
    plan, stage_names = session.plan, [stage.name for stage in session.plan.stages]
    # must come first: doit adds subtasks only to an existing group
    yield {"basename": "extensions", "name": None, "doc": HELP_PAGES["extensions"].doc}
    doc = HELP_PAGES["build"].doc
    yield {"basename": "build", "actions": None, "doc": doc, "task_dep": stage_names}
    for stage in (*plan.stages, *(() if "validate" in plan.absent else (plan.validate,))):
        yield _build_task(session, stage)
    for name, reason in plan.absent.items():
        if name not in {*stage_names, "extensions"}:
            text = f"not part of this profile: {reason}"
            print_reason = (session.console.print_line, [f"{name}: {text}"])
            yield {"basename": name, "doc": text, "actions": [print_reason], "uptodate": [False]}


def _build_task(session: execute.Session, stage: Stage) -> DoitTask:
    kind, _, name = stage.name.partition(":")
    return {
        "basename": kind,
        **({"name": name} if name else {}),
        "doc": stage.doc,
        "actions": [(execute.execute_stage, [session, stage])],
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

    def is_intact() -> bool:
        from tasks.runlog import stage_record_io  # noqa: PLC0415 - not at load

        if not stage_record_io.has_intact_manifests(stage):
            return False
        # doit tracks neither missing files nor the tasks that write them
        return not stage.optional_inputs or not (
            stage_record_io.find_rebuild_reasons(stage)
            or any(map(execute.is_due, execute.list_optional_stages(plan, stage)))
        )

    checks = [config_changed(convert_to_redacted_json(stage.fingerprint)), is_intact]
    if stage.uptodate_check == "stale":
        checks.append(
            lambda: not execute.load_stage_module(stage, "up_to_date").is_stale(stage.job)
        )
    return checks


def list_result_files(stage: Stage) -> list[Path]:
    """Return the files that `doit clean` removes: manifests, and the JUnit file of `validate`."""
    paths = (*stage.outputs, *(stage.extra_outputs if stage.kind == "validate" else ()))
    return [Path(path) for path in paths if Path(path).is_file()]


def remove_manifests(stage: Stage) -> None:
    """Remove the manifests of a stage, so that doit runs the stage again."""
    from tasks.system import manifests  # noqa: PLC0415 - nothing of this is needed when all is up to date

    manifests.remove_manifests(*list_result_files(stage))
