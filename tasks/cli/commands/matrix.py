"""`doit matrix`: list the builds of a profile's matrix and their state.

`--build` builds those that are not up to date, one after another, and publishes them. `--workflow`
writes the same matrix for GitHub Actions or Slurm.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Any, Literal

from tasks.cli.commands.explain import explain_stages
from tasks.cli.session import HostReader, open_profile
from tasks.core.canonical_json import convert_to_json, format_canonical_json
from tasks.core.errors import CommandFailedError, SettingsError, TorchyardError, redact_secrets
from tasks.core.model import Command, Host, Plan, Stage
from tasks.core.text_formatting import format_duration
from tasks.knowledge import Knowledge
from tasks.knowledge.knowledge_files_io import load_knowledge
from tasks.knowledge.versions import parse_major_minor
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.settings import values
from tasks.settings.layers_io import load_settings
from tasks.settings.loaded_settings import LoadedSettings
from tasks.settings.matrix_entries import expand_matrix, split_profile_name
from tasks.settings.setting_errors import ENV_PREFIX
from tasks.system import shell
from tasks.system.files import write_user_file
from tasks.system.hardware import host_probe
from tasks.system.jinja_templates import render_template
from tasks.system.manifests import build_record_path
from tasks.system.output import print_report, print_warning
from tasks.system.screen import print_status_rows

# Only a run that builds sets the last two
EntryState = Literal[
    "up to date", "not built", "stale", "failed", "impossible", "built", "unpublished"
]


@dataclass(frozen=True)
class EntryStatus:
    """A matrix entry, the profile that builds it (`NAME@CELL`), its state, and a short reason."""

    cell: str
    profile: str
    state: EntryState
    why: str = ""


def list_entry_statuses(root: Path, name: str) -> Iterator[EntryStatus]:
    """Yield the status of each matrix entry of the profile `name`.

    Raises `SettingsError` if the settings are not well-formed.
    """
    knowledge, host_of = load_knowledge(root / "config" / "knowledge"), _build_cached_reader()
    for cell in expand_matrix(load_settings(root / "config", name, os.environ).settings.matrix):
        yield _compute_entry_status(root, cell, f"{name}@{cell}", knowledge, host_of)


def _build_cached_reader() -> HostReader:
    """Return a host reader that probes once per query: finding a Python takes half a second.

    A pin file is always read.
    """
    hosts: dict[host_probe.HostQuery, Host] = {}

    def read_host(asked: host_probe.HostQuery, pin: PurePath) -> Host:
        if Path(pin).exists():
            return host_probe.read_host(asked, pin)
        if asked not in hosts:
            hosts[asked] = host_probe.read_host(asked, pin)
        return hosts[asked]

    return read_host


def _compute_entry_status(
    root: Path, cell: str, profile: str, knowledge: Knowledge, host_of: HostReader
) -> EntryStatus:
    try:
        plan = open_profile(root, profile, os.environ, knowledge, host_of).plan
    except TorchyardError as error:
        location = f"{error.location}: " if error.location else ""
        return EntryStatus(cell, profile, "impossible", f"{location}{error.message}")
    return EntryStatus(cell, profile, *_compute_entry_state(plan, profile))


def _compute_entry_state(plan: Plan, profile: str) -> tuple[EntryState, str]:
    first = next(iter(plan.stages))
    if not Path(build_record_path(first.outputs[0])).exists() and not _is_interrupted(first):
        return "not built", ""
    if failed := next((stage for stage in plan.stages if _is_interrupted(stage)), None):
        return "failed", f"{failed.name} did not come to its end: doit diagnose profile={profile}"
    for verdict in explain_stages(plan):
        if verdict.verdict != "up to date":
            return "stale", f"{verdict.stage}: {'; '.join(verdict.reasons)}"
    return "up to date", ""


def _is_interrupted(stage: Stage) -> bool:
    """Return True if the stage has no manifest and its log is newer than its last record.

    A stage whose manifest `doit clean` removed still has its record.
    """
    log = Path(getattr(stage.job, "log", ""))
    if all(Path(path).exists() for path in stage.outputs) or not log.is_file():
        return False
    record = Path(build_record_path(stage.outputs[0]))
    return not record.is_file() or log.stat().st_mtime_ns > record.stat().st_mtime_ns


_DONE_STATES = {"up to date", "built"}
_STATE_HINTS = {
    "failed": "doit diagnose profile={}",
    "impossible": "matrix.exclude leaves out what cannot be built here",
    "unpublished": "doit publish profile={}",
}


def build_entries(root: Path, found: Sequence[EntryStatus]) -> Iterator[EntryStatus]:
    """Build the entries that are not up to date, in order, and yield the new statuses."""
    outdated = [one for one in found if one.state not in {"up to date", "impossible"}]
    for one in found:
        if one in outdated:
            print_report(f"{outdated.index(one) + 1} of {len(outdated)}: {one.cell}")
        yield _build_entry(root, one) if one in outdated else one


def publish_entries(root: Path, found: Sequence[EntryStatus]) -> Iterator[EntryStatus]:
    """Publish the wheels of all built entries and yield the new statuses.

    Wheels already on the index are only checked.
    """
    for one in found:
        yield _publish_entry(root, one) if one.state in _DONE_STATES else one


def require_all_done(found: Sequence[EntryStatus]) -> None:
    """Raise `TorchyardError` if an entry is not done."""
    unfinished = [one for one in found if one.state not in _DONE_STATES]
    if not unfinished:
        return
    first = {one.state: one for one in reversed(unfinished)}
    raise TorchyardError(
        f"{len(unfinished)} of {len(found)} builds of the matrix are not done: "
        f"{', '.join(one.cell for one in unfinished)}",
        location="matrix",
        hint="; ".join(
            _STATE_HINTS[state].format(one.profile) for state, one in sorted(first.items())
        ),
    )


def _build_entry(root: Path, one: EntryStatus) -> EntryStatus:
    started = time.monotonic()
    if reason := _run_doit(root, "build", one.profile):
        return replace(one, state="failed", why=reason)
    return replace(one, state="built", why=f"in {format_duration(time.monotonic() - started)}")


def _publish_entry(root: Path, one: EntryStatus) -> EntryStatus:
    reason = _run_doit(root, "publish", one.profile)
    return replace(one, state="unpublished", why=reason) if reason else one


def _run_doit(root: Path, task: str, profile: str) -> str:
    """Run a task of a profile; return why it failed, or "" on success.

    The process gets the whole environment, including settings.
    """
    argv = (sys.executable, "-m", "doit", task, f"profile={profile}")
    env = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    lines: list[str] = []

    def keep_line(line: str) -> None:
        lines.append(line.strip())
        print_report(line)

    try:
        shell.run_command(Command(argv, env, f"doit {task} profile={profile}", cwd=root), keep_line)
    except CommandFailedError as error:
        return _extract_failure_reason(lines) or f"exit {error.code}"
    return ""


def _extract_failure_reason(said: Sequence[str]) -> str:
    """Return the line below the first failed stage, or else the error at load."""
    failed = (line for before, line in pairwise(said) if before.startswith("Failed "))
    load_errors = (line.removeprefix("ERROR: ") for line in said if line.startswith("ERROR: "))
    return next(failed, "") or next(load_errors, "")


_WORKFLOW_TEMPLATES = {"github": "github.yml.j2", "slurm": "slurm.sh.j2"}
_MAX_WORKFLOW_JOBS = 256  # jobs per matrix (docs.github.com, "Usage limits")
_RUNNER_PYTHON = "3.12"  # a Python that torchyard itself runs on
_OLDEST_PYTHON = (3, 11)  # pyproject.toml


def write_workflow(root: Path, profile: str, kind: str, out: str) -> None:
    """Print the workflow, or write it to the file `out`.

    Raises `TorchyardError` if the kind is unknown, or if the profile's name or the number of builds
    is not allowed in such a file.
    """
    if kind not in _WORKFLOW_TEMPLATES:
        raise TorchyardError(
            f'there is no workflow "{kind}"', location="--workflow", hint="write github or slurm"
        )
    loaded = load_settings(root / "config", profile, os.environ)
    values = _build_template_values(root, profile, kind, loaded)
    _warn_about_local_settings(loaded, kind)
    text = render_template(root / "templates" / "matrix" / _WORKFLOW_TEMPLATES[kind], values)
    if out:
        write_user_file(Path(out), text)
        print_report(f"wrote {out}: {len(values['cells'])} builds")
    else:
        print_report(text.rstrip("\n"))


def _build_template_values(
    root: Path, profile: str, kind: str, loaded: LoadedSettings
) -> Mapping[str, Any]:
    if not re.fullmatch(values.NAME_PATTERN.strip("^$"), profile):
        raise TorchyardError(
            f'"{profile}" is no name for a workflow',
            location="config/profiles",
            hint=f"rename the profile: {values.PATTERN_HINTS[values.NAME_PATTERN]}",
        )
    names = list(expand_matrix(loaded.settings.matrix))
    if not names or (kind == "github" and len(names) > _MAX_WORKFLOW_JOBS):
        raise TorchyardError(
            f"a workflow holds 1 to {_MAX_WORKFLOW_JOBS} builds, and this matrix has {len(names)}",
            location="matrix",
            hint="see doit matrix, and docs/matrix.md",
        )
    return {
        "profile": profile,
        "root": str(root),
        "wheelhouse": loaded.settings.wheel.wheelhouse,
        "cells": [_build_workflow_entry(root, f"{profile}@{name}", name) for name in names],
    }


def _build_workflow_entry(root: Path, profile: str, name: str) -> dict[str, str]:
    python = load_settings(root / "config", profile, os.environ).settings.python
    return {"name": name, "profile": profile, "python": _format_pythons(python)}


def _format_pythons(asked: str) -> str:
    """Return the Python versions to set up; the last one runs doit.

    A path is dropped: it belongs to this machine.
    """
    if not re.fullmatch(r"\d+\.\d+(\.\d+)?", asked):
        return _RUNNER_PYTHON
    return f"{asked}\n{_RUNNER_PYTHON}" if parse_major_minor(asked) < _OLDEST_PYTHON else asked


def _warn_about_local_settings(loaded: LoadedSettings, kind: str) -> None:
    """Warn about local settings: a GitHub runner has only the repository."""
    local = sorted(
        key
        for key, origin in loaded.origin.items()
        if kind == "github" and origin.startswith(("config/local", ENV_PREFIX))
    )
    if local:
        print_warning(
            f"{', '.join(local)}: from config/local.yaml or the environment, which a runner of "
            "GitHub does not have; what it is to go by belongs into the profile"
        )


def run(
    subject: SelectedProfile, build: bool = False, workflow: str = "", out: str = "", json: str = ""
) -> None:
    """List the builds; with `build`, build them. `out` and `json` are paths of output files.

    Raises `TorchyardError` if a build failed, or if the settings have no matrix.
    """
    name, _ = split_profile_name(subject.name)
    if workflow:
        write_workflow(subject.root, name, workflow, out)
        return
    statuses = list(list_entry_statuses(subject.root, name))
    if not statuses:
        raise SettingsError(
            f'the profile "{name}" has no matrix',
            location="matrix",
            hint="list what varies in the profile: docs/matrix.md",
        )
    if build:
        statuses = list(build_entries(subject.root, statuses))
        if subject.read_settings().settings.publish.dest:
            statuses = list(publish_entries(subject.root, statuses))
    if json:
        write_user_file(
            Path(json),
            redact_secrets(
                format_canonical_json({"profile": name, "cells": convert_to_json(statuses)})
            ),
        )
    print_status_rows([(one.cell, one.state, one.why) for one in statuses])
    if build:
        require_all_done(statuses)
