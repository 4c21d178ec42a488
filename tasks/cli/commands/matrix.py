"""`doit matrix`: list, build and publish a matrix, or write a workflow for GitHub or Slurm."""

import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Literal

from tasks.cli.commands.explain import explain_stages
from tasks.cli.commands.json_output import write_json_result
from tasks.cli.session import open_profile
from tasks.core.canonical_json import convert_to_json
from tasks.core.errors import CommandFailedError, SettingsError, TorchyardError
from tasks.core.model import Command, Host, Plan, Stage
from tasks.core.project import Project
from tasks.core.text_formatting import format_duration
from tasks.knowledge.knowledge_files_io import load_knowledge
from tasks.knowledge.versions import parse_major_minor
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.planning.profile_plan import build_layout
from tasks.settings import values
from tasks.settings.layers_io import load_settings
from tasks.settings.matrix_entries import expand_matrix, split_profile_name
from tasks.settings.setting_errors import ENV_PREFIX
from tasks.system import shell
from tasks.system.files import write_user_file
from tasks.system.hardware import host_probe
from tasks.system.jinja_templates import render_template
from tasks.system.manifests import build_record_path
from tasks.system.output import print_report, print_warning
from tasks.system.screen import print_status_rows

# The states "built" and "unpublished" are set only by a run that builds
EntryState = Literal[
    "up to date", "not built", "stale", "failed", "impossible", "built", "unpublished"
]


@dataclass(frozen=True)
class EntryStatus:
    """The state of a matrix entry. `profile` is NAME@CELL. `why` is the reason for the state."""

    cell: str
    profile: str
    state: EntryState
    why: str = ""


def list_entry_statuses(project: Project, name: str) -> Iterator[EntryStatus]:
    """Yield the status of each matrix entry. Raises `SettingsError` for malformed settings."""
    knowledge = load_knowledge(Path(project.config, "knowledge"))
    hosts: dict[host_probe.HostQuery, Host] = {}

    def read_host(query: host_probe.HostQuery, pin: PurePath) -> Host:
        if Path(pin).exists():
            return host_probe.read_host(query, pin)
        if query not in hosts:  # probe the machine once per query, because a probe is slow
            hosts[query] = host_probe.read_host(query, pin)
        return hosts[query]

    for entry in expand_matrix(load_settings(project, name, os.environ).settings.matrix):
        profile = f"{name}@{entry}"
        try:
            plan = open_profile(project, profile, os.environ, knowledge, read_host).plan
        except TorchyardError as error:
            location = f"{error.location}: " if error.location else ""
            yield EntryStatus(entry, profile, "impossible", f"{location}{error.message}")
        else:
            yield EntryStatus(entry, profile, *_compute_entry_state(plan, profile))


def _compute_entry_state(plan: Plan, profile: str) -> tuple[EntryState, str]:
    first = plan.stages[0]
    if not Path(build_record_path(first.outputs[0])).exists() and not _is_interrupted(first):
        return "not built", ""
    if failed := next((stage for stage in plan.stages if _is_interrupted(stage)), None):
        return "failed", f"{failed.name} did not finish: doit diagnose profile={profile}"
    for verdict in explain_stages(plan):
        if verdict.verdict != "up to date":
            return "stale", f"{verdict.stage}: {'; '.join(verdict.reasons)}"
    return "up to date", ""


def _is_interrupted(stage: Stage) -> bool:
    """Return True if the last run of the stage wrote a log but did not finish."""
    log = Path(getattr(stage.job, "log", ""))
    if all(Path(path).exists() for path in stage.outputs) or not log.is_file():
        return False
    record = Path(build_record_path(stage.outputs[0]))
    return not record.is_file() or log.stat().st_mtime_ns > record.stat().st_mtime_ns


_DONE_STATES = {"up to date", "built"}
_STATE_HINTS = {
    "failed": "doit diagnose profile={}",
    "impossible": "add the impossible builds to matrix.exclude",
    "unpublished": "doit publish profile={}",
}


def build_entries(project: Project, found: Sequence[EntryStatus]) -> Iterator[EntryStatus]:
    """Build the possible entries that are not up to date; yield the new status of every entry."""
    outdated = [one for one in found if one.state not in {"up to date", "impossible"}]
    for one in found:
        if one not in outdated:
            yield one
            continue
        print_report(f"{outdated.index(one) + 1} of {len(outdated)}: {one.cell}")
        start = time.monotonic()
        if reason := _run_task(project, "build", one.profile):
            yield replace(one, state="failed", why=reason)
        else:
            yield replace(one, state="built", why=f"in {format_duration(time.monotonic() - start)}")


def require_all_done(found: Sequence[EntryStatus]) -> None:
    """Raise `TorchyardError` unless every entry is built or up to date."""
    unfinished = [one for one in found if one.state not in _DONE_STATES]
    if not unfinished:
        return
    first = sorted({one.state: one.profile for one in reversed(unfinished)}.items())
    names = ", ".join(one.cell for one in unfinished)
    message = f"{len(unfinished)} of {len(found)} builds of the matrix are not finished: {names}"
    hint = "; ".join(_STATE_HINTS[state].format(profile) for state, profile in first)
    raise TorchyardError(message, location="matrix", hint=hint)


def _run_task(project: Project, task: str, profile: str) -> str:
    """Run a task of a profile in a new process. Return why it failed, "" on success."""
    argv: tuple[str, ...] = (sys.executable, "-m", "doit", task, f"profile={profile}")
    if not project.is_checkout:
        argv = (sys.executable, "-m", "torchyard", task, "--profile", profile)
    env = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    lines: list[str] = []

    def keep_line(line: str) -> None:
        lines.append(line.strip())
        print_report(line)

    try:
        shell.run_command(
            Command(argv, env, f"doit {task} profile={profile}", cwd=project.root), keep_line
        )
    except CommandFailedError as error:
        # the line after the first "Failed STAGE", else the first load error
        failed = (line for before, line in pairwise(lines) if before.startswith("Failed "))
        load_errors = (line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: "))
        return next(failed, "") or next(load_errors, "") or f"exit {error.code}"
    return ""


_WORKFLOW_TEMPLATES = {"github": "github.yml.j2", "slurm": "slurm.sh.j2"}
_MAX_WORKFLOW_JOBS = 256  # jobs per matrix (docs.github.com, "Usage limits")
_RUNNER_PYTHON = "3.12"  # a Python version that torchyard supports
_OLDEST_PYTHON = (3, 11)  # requires-python in pyproject.toml


def write_workflow(project: Project, profile: str, kind: str, out: str) -> None:
    """Write the workflow for `kind` (github or slurm) to `out`, or print it if `out` is ""."""
    if kind not in _WORKFLOW_TEMPLATES:
        message, hint = f'there is no workflow "{kind}"', "choose github or slurm"
        raise TorchyardError(message, location="--workflow", hint=hint)
    loaded = load_settings(project, profile, os.environ)
    if not re.fullmatch(values.NAME_PATTERN.strip("^$"), profile):
        message = f'the profile name "{profile}" is not allowed in a workflow'
        hint = f"rename the profile: {values.PATTERN_HINTS[values.NAME_PATTERN]}"
        raise TorchyardError(message, location="config/profiles", hint=hint)
    names = list(expand_matrix(loaded.settings.matrix))
    if not names or (kind == "github" and len(names) > _MAX_WORKFLOW_JOBS):
        allowed = f"a workflow allows 1 to {_MAX_WORKFLOW_JOBS} builds"
        message = f"{allowed}, but this matrix has {len(names)}"
        hint = "list the builds: doit matrix; docs/matrix.md explains the settings"
        raise TorchyardError(message, location="matrix", hint=hint)
    prefixes = ("config/local", ENV_PREFIX)
    local = sorted(key for key, origin in loaded.origin.items() if origin.startswith(prefixes))
    if local and kind == "github":  # a GitHub runner has only the repository
        print_warning(
            "a GitHub runner does not get the values of config/local.yaml and the environment: "
            f"{', '.join(local)}; set them in the profile if the runner needs them"
        )
    wheelhouse = Path(build_layout(project, profile, loaded.settings).wheelhouse)
    if wheelhouse.is_relative_to(project.root):  # the runner has another checkout
        wheelhouse = wheelhouse.relative_to(project.root)
    template_values = {
        "profile": profile,
        "root": str(project.root),
        "wheelhouse": wheelhouse.as_posix(),
        "cells": [_build_workflow_entry(project, f"{profile}@{name}", name) for name in names],
    }
    template = Path(project.templates) / "matrix" / _WORKFLOW_TEMPLATES[kind]
    text = render_template(template, template_values)
    if out:
        write_user_file(Path(out), text)
        print_report(f"wrote {out}: {len(names)} builds")
    else:
        print_report(text.rstrip("\n"))


def _build_workflow_entry(project: Project, profile: str, name: str) -> dict[str, str]:
    """Return the values of a matrix entry for the workflow template."""
    python = load_settings(project, profile, os.environ).settings.python
    if not re.fullmatch(r"\d+\.\d+(\.\d+)?", python):
        python = _RUNNER_PYTHON  # auto, or a path, which is valid only on this machine
    elif parse_major_minor(python) < _OLDEST_PYTHON:
        python += f"\n{_RUNNER_PYTHON}"
    return {"name": name, "profile": profile, "python": python}


def run(
    subject: SelectedProfile, build: bool = False, workflow: str = "", out: str = "", json: str = ""
) -> None:
    """Print or build the matrix entries, or write a workflow if `workflow` is set."""
    name, _ = split_profile_name(subject.name)
    if workflow:
        write_workflow(subject.project, name, workflow, out)
        return
    statuses = list(list_entry_statuses(subject.project, name))
    if not statuses:
        message, hint = (
            f'the profile "{name}" has no matrix',
            "add a matrix to the profile: docs/matrix.md",
        )
        raise SettingsError(message, location="matrix", hint=hint)
    if build:
        statuses = list(build_entries(subject.project, statuses))
        if subject.read_settings().settings.publish.dest:
            for index, one in enumerate(statuses):
                if one.state in _DONE_STATES:
                    reason = _run_task(subject.project, "publish", one.profile)
                    statuses[index] = (
                        replace(one, state="unpublished", why=reason) if reason else one
                    )
    write_json_result(json, {"profile": name, "cells": convert_to_json(statuses)})
    print_status_rows([(one.cell, one.state, one.why) for one in statuses])
    if build:
        require_all_done(statuses)
