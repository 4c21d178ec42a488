"""How each build of a matrix stands: planned by itself, so that one that cannot be is a row."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Literal

from tasks.cli.commands.explain import explain_stages
from tasks.cli.opening import HostReader, open_profile
from tasks.core.errors import TorchyardError
from tasks.core.model import Host, Plan, Stage
from tasks.knowledge import Knowledge
from tasks.knowledge import load_knowledge as load_knowledge
from tasks.settings.load import load_settings
from tasks.settings.matrix_entries import expand_matrix
from tasks.system.hardware import probe
from tasks.system.manifests import build_record_path

# The last two are of a run that builds
EntryState = Literal[
    "up to date", "not built", "stale", "failed", "impossible", "built", "unpublished"
]


@dataclass(frozen=True)
class EntryStatus:
    """A cell, the profile that builds it (`NAME@CELL`), how that stands and why, in a few words."""

    cell: str
    profile: str
    state: EntryState
    why: str = ""


def list_entry_statuses(root: Path, name: str) -> Iterator[EntryStatus]:
    """Every cell of the profile `name`. Raises `SettingsError` where the settings are not
    well-formed.
    """
    knowledge, host_of = load_knowledge(root / "config" / "knowledge"), _build_cached_reader()
    for cell in expand_matrix(load_settings(root / "config", name, os.environ).settings.matrix):
        yield _compute_entry_status(root, cell, f"{name}@{cell}", knowledge, host_of)


def _build_cached_reader() -> HostReader:
    """Looks once for all that ask the same: to find a Python takes half a second."""
    seen: dict[probe.HostQuery, Host] = {}

    def read_host(asked: probe.HostQuery, pin: PurePath) -> Host:
        if Path(pin).exists():
            return probe.read_host(asked, pin)
        if asked not in seen:
            seen[asked] = probe.read_host(asked, pin)
        return seen[asked]

    return read_host


def _compute_entry_status(
    root: Path, cell: str, profile: str, knowledge: Knowledge, host_of: HostReader
) -> EntryStatus:
    try:
        plan = open_profile(root, profile, os.environ, knowledge, host_of).plan
    except TorchyardError as error:
        where = f"{error.location}: " if error.location else ""
        return EntryStatus(cell, profile, "impossible", f"{where}{error.message}")
    return EntryStatus(cell, profile, *_compute_entry_state(plan, profile))


def _compute_entry_state(plan: Plan, profile: str) -> tuple[EntryState, str]:
    first = next(iter(plan.stages))
    if not Path(build_record_path(first.outputs[0])).exists() and not _is_interrupted(first):
        return "not built", ""
    if stopped := next((stage for stage in plan.stages if _is_interrupted(stage)), None):
        return "failed", f"{stopped.name} did not come to its end: doit diagnose profile={profile}"
    for verdict in explain_stages(plan):
        if verdict.verdict != "up to date":
            return "stale", f"{verdict.stage}: {'; '.join(verdict.reasons)}"
    return "up to date", ""


def _is_interrupted(stage: Stage) -> bool:
    """Whether it left no manifest, and its log is younger than what it finished last. A manifest
    that `doit clean` withdrew has its record still.
    """
    log = Path(getattr(stage.job, "log", ""))
    if all(Path(path).exists() for path in stage.outputs) or not log.is_file():
        return False
    record = Path(build_record_path(stage.outputs[0]))
    return not record.is_file() or log.stat().st_mtime_ns > record.stat().st_mtime_ns
