"""`doit matrix`: list, build and publish a matrix, or write a workflow for other machines."""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Literal

from tasks.cli.commands.explain import explain_stages
from tasks.cli.commands.json_output import write_json_result
from tasks.cli.commands.workflow_files import write_workflow
from tasks.cli.session import open_profile
from tasks.core.canonical_json import convert_to_json
from tasks.core.errors import CommandFailedError, SettingsError, TorchyardError
from tasks.core.model import Command, Host, Plan, Stage
from tasks.core.project import Project
from tasks.core.text_formatting import format_duration
from tasks.knowledge.knowledge_files_io import load_knowledge
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.settings.layers_io import load_settings
from tasks.settings.matrix_entries import expand_matrix, split_profile_name
from tasks.system import shell
from tasks.system.hardware import host_probe
from tasks.system.manifests import build_record_path
from tasks.system.output import print_report
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
    knowledge = load_knowledge(Path(project.knowledge))
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


def run(  # noqa: PLR0913, PLR0917 - one parameter per option
    subject: SelectedProfile,
    build: bool = False,
    workflow: str = "",
    github: bool = False,
    out: str = "",
    json: str = "",
) -> None:
    """Print or build the matrix entries, or write a workflow if one is requested."""
    name, _ = split_profile_name(subject.name)
    if workflow or github:
        write_workflow(subject.project, name, workflow or "github", out)
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
