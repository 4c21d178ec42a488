"""How each build of a matrix stands: planned by itself, so that one that cannot be is a row."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Literal

from tasks.cli.commands.explain import explain
from tasks.cli.opening import HostOf, open_profile
from tasks.core.errors import BuildError
from tasks.core.model import Host, Plan, Stage
from tasks.knowledge import Knowledge
from tasks.knowledge import load as load_knowledge
from tasks.settings.load import load
from tasks.settings.matrix_entries import cells
from tasks.system.hardware import probe
from tasks.system.manifests import record_of

# The last two are of a run that builds
State = Literal["up to date", "not built", "stale", "failed", "impossible", "built", "unpublished"]


@dataclass(frozen=True)
class Standing:
    """A cell, the profile that builds it (`NAME@CELL`), how that stands and why, in a few words."""

    cell: str
    profile: str
    state: State
    why: str = ""


def standings(root: Path, name: str) -> Iterator[Standing]:
    """Every cell of the profile `name`. Raises `SettingsError` where the settings are not
    well-formed.
    """
    knowledge, host_of = load_knowledge(root / "config" / "knowledge"), _host_of()
    for cell in cells(load(root / "config", name, os.environ).settings.matrix):
        yield _standing(root, cell, f"{name}@{cell}", knowledge, host_of)


def _host_of() -> HostOf:
    """Looks once for all that ask the same: to find a Python takes half a second."""
    seen: dict[probe.Asked, Host] = {}

    def host_of(asked: probe.Asked, pin: PurePath) -> Host:
        if Path(pin).exists():
            return probe.host(asked, pin)
        if asked not in seen:
            seen[asked] = probe.host(asked, pin)
        return seen[asked]

    return host_of


def _standing(
    root: Path, cell: str, profile: str, knowledge: Knowledge, host_of: HostOf
) -> Standing:
    try:
        plan = open_profile(root, profile, os.environ, knowledge, host_of).plan
    except BuildError as error:
        where = f"{error.where}: " if error.where else ""
        return Standing(cell, profile, "impossible", f"{where}{error.what}")
    return Standing(cell, profile, *_state(plan, profile))


def _state(plan: Plan, profile: str) -> tuple[State, str]:
    first = next(iter(plan.stages))
    if not Path(record_of(first.leaves[0])).exists() and not _cut_off(first):
        return "not built", ""
    if stopped := next((stage for stage in plan.stages if _cut_off(stage)), None):
        return "failed", f"{stopped.name} did not come to its end: doit diagnose profile={profile}"
    for verdict in explain(plan):
        if verdict.verdict != "up to date":
            return "stale", f"{verdict.stage}: {'; '.join(verdict.reasons)}"
    return "up to date", ""


def _cut_off(stage: Stage) -> bool:
    """Whether it left no manifest, and its log is younger than what it finished last. A manifest
    that `doit clean` withdrew has its record still.
    """
    log = Path(getattr(stage.job, "log", ""))
    if all(Path(path).exists() for path in stage.leaves) or not log.is_file():
        return False
    record = Path(record_of(stage.leaves[0]))
    return not record.is_file() or log.stat().st_mtime_ns > record.stat().st_mtime_ns
