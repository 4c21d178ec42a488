"""What failed last in a profile: by the record of its newest run, else by the logs that it left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tasks.core.model import Stage
from tasks.lock.profile import SelectedProfile
from tasks.runlog import runrecords
from tasks.runlog.record import StageRun


@dataclass(frozen=True)
class StageFailure:
    """One or more stages that failed in the same way: the log, None where there is none, and what,
    where and todo of the record, where that tells it. `stage` is "" where only a log is known.
    """

    stage: str
    log: Path | None
    error: Mapping[str, Any] = field(default_factory=dict)


def find_failures(subject: SelectedProfile) -> tuple[StageFailure, ...]:
    """What the newest run could not do; where it failed in nothing, or there is no record of it,
    the newest log of a stage that left no manifest; () for nothing at all.
    """
    newest = next(runrecords.read_runs(find_records_folder(subject)), None)
    stages = [one for one in newest.stages if one.outcome == "failed"] if newest else []
    if not stages:
        log = _find_newest_log(subject)
        return (StageFailure("", log),) if log else ()
    alike: dict[tuple[str, str], list[StageRun]] = {}
    for one in stages:
        alike.setdefault((str(one.error.get("what")), str(one.error.get("where"))), []).append(one)
    return tuple(
        StageFailure(", ".join(one.name for one in ones), _find_stage_log(ones[0]), ones[0].error)
        for ones in alike.values()
    )


def find_records_folder(subject: SelectedProfile) -> Path:
    """Where each run of a profile leaves one."""
    return subject.build / "records" / "runs"


def find_logs_folder(subject: SelectedProfile) -> Path:
    """Where the stages of a profile leave them."""
    return subject.build / "logs"


def _find_stage_log(one: StageRun) -> Path | None:
    named = one.diagnosis.get("log")
    log = Path(named) if isinstance(named, str) else None
    return log if log and log.is_file() else None


def _find_newest_log(subject: SelectedProfile) -> Path | None:
    """Of any stage where the plan is not known."""
    if subject.opened:
        stages = [stage for stage in subject.opened.plan.stages if not _has_outputs(stage)]
        logs = [Path(log) for stage in stages if (log := getattr(stage.job, "log", None))]
    else:
        logs = list(find_logs_folder(subject).glob("*.log"))
    there = [log for log in logs if log.is_file()]
    return max(there, key=lambda log: log.stat().st_mtime_ns, default=None)


def _has_outputs(stage: Stage) -> bool:
    return all(Path(path).exists() for path in stage.outputs)
