"""What the lines of a run's record hold: a failure, a moment of a build, an output that was made, a
manifest. Pure.
"""

from __future__ import annotations

import json
from typing import Any

from tasks.core.digest import convert_to_json, mask_secrets
from tasks.core.errors import InterruptedRunError, TorchyardError
from tasks.core.model import Json
from tasks.core.progress import Progress
from tasks.runlog.record import Edge

_MAX_VALUE_LENGTH = 20_000  # signs of an output that is left out


def classify_error(error: BaseException) -> tuple[str, dict[str, Json] | None]:
    """The outcome of a stage that `error` ended, and what, where and what to do."""
    match error:
        case InterruptedRunError() | SystemExit() | KeyboardInterrupt():
            return "stopped", None
        case TorchyardError():
            return "failed", {"what": error.message, "where": error.location, "todo": error.hint}
        case OSError():
            where = str(error.filename or "")
            return "failed", {"what": str(error.strerror or error), "where": where, "todo": ""}
    return "failed", {"what": f"{type(error).__name__}: {error}", "where": "", "todo": ""}


def build_sample_event(progress: Progress) -> dict[str, Json]:
    """How far it is and what is at work, None for what nobody knows."""
    work = progress.at_work
    known = bool(work.limit_mib)
    return {
        "jobs": work.jobs,
        "held_back": work.held_back if work.jobs is not None else None,
        "used_mib": work.used_mib if known else None,
        "limit_mib": work.limit_mib if known else None,
        "hit_rate": None if work.hit_rate is None else round(work.hit_rate, 4),
        "done": progress.done,
        "total": progress.total,
    }


def build_edge_entry(one: Edge, started: float) -> dict[str, Json]:
    """One that is timed by a clock which told `started` when the run began."""
    told: dict[str, Json] = {
        "output": one.output,
        "began": round(max(0.0, one.began - started), 3),
        "ended": round(max(0.0, one.ended - started), 3),
    }
    peak = {} if one.peak_mib is None else {"peak_mib": one.peak_mib}
    return told | peak | ({"failed": True} if one.failed else {})


def trim_manifest(outputs: Any) -> Json:
    """A manifest without what is large in it, and without secrets."""
    found = mask_secrets(convert_to_json(outputs)) if outputs is not None else None
    if not isinstance(found, dict):
        return None
    return {
        name: value for name, value in found.items() if len(json.dumps(value)) <= _MAX_VALUE_LENGTH
    }
