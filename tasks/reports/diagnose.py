"""`doit diagnose`: why the last build failed, or what any log tells: the first real error, the
cause in a sentence, what to do, and where the whole log is. Where the cause is not sure it says so.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap
from typing import Any

from tasks.diagnosis.decide import Diagnosis, diagnose
from tasks.digest import canonical
from tasks.effects.files import deliver
from tasks.effects.logreading import read_log
from tasks.effects.voice import show
from tasks.errors import BuildError, redact
from tasks.knowledge import load
from tasks.model import Stage
from tasks.reports.subject import Subject

_WIDTH, _KEYS = 100, 13


def run(subject: Subject, log: str = "", json: str = "") -> None:
    """Print the diagnosis of `log`, or of the last stage that failed; `json` is a file to write it
    to. Raises `BuildError` where there is no log.
    """
    path = Path(log) if log else _last(subject)
    found = diagnose(load(subject.root / "config" / "knowledge").failures, read_log(path))
    if json:
        deliver(Path(json), redact(canonical(document(found, path))))
    for key, text in _rows(found, path):
        for place, line in enumerate(_wrapped(text)):
            show(f"{'' if place else key:<{_KEYS}}{line}".rstrip())


def _last(subject: Subject) -> Path:
    """The newest log of a stage that left no manifest; of any stage where the plan is not known."""
    if subject.opened:
        stages = [stage for stage in subject.opened.plan.stages if not _made(stage)]
        logs = [Path(log) for stage in stages if (log := getattr(stage.job, "log", None))]
        built = Path(subject.opened.layout.build)
    else:
        built = subject.root / "build" / subject.name
        logs = list((built / "logs").glob("*.log"))
    there = [log for log in logs if log.is_file()]
    if not there:
        raise BuildError(
            "no stage of this profile has failed: there is no log of one",
            where=str(built / "logs"),
            todo="name a log: doit diagnose --log FILE",
        )
    return max(there, key=lambda log: log.stat().st_mtime_ns)


def _made(stage: Stage) -> bool:
    return all(Path(path).exists() for path in stage.leaves)


def _rows(found: Diagnosis, path: Path) -> list[tuple[str, str]]:
    rows = []
    if error := found.first_error:
        rows.append(("first error", error.text))
        rows.append(
            ("", f"line {error.number} of the log{f', of {found.edge}' if found.edge else ''}")
        )
    if found.failure:
        rows.append(("cause", f"{found.failure.cause} ({found.failure.slug})"))
        rows.append(("to do", found.failure.remedy))
    else:
        rows.append(("cause", _unsure(found)))
    return [*rows, ("whole log", str(path))]


def _unsure(found: Diagnosis) -> str:
    if found.candidates:
        return f"not sure; it could be {' or '.join(found.candidates)}"
    return "not known" if found.first_error else "nothing in this log reads like a failure"


def _wrapped(text: str) -> list[str]:
    return wrap(text, _WIDTH - _KEYS, break_long_words=False, break_on_hyphens=False) or [""]


def document(found: Diagnosis, path: Path) -> dict[str, Any]:
    """The diagnosis for programs. `line` is that of the source where a compiler names one, else
    that of the log.
    """
    failure, error = found.failure, found.first_error
    return {
        "cause": failure.slug if failure else None,
        "candidates": list(found.candidates),
        "first_error": {
            "file": error.file or str(path),
            "line": error.line if error.line is not None else error.number,
            "text": error.text,
            "log_line": error.number,
        }
        if error
        else None,
        "explanation": failure.cause if failure else None,
        "remedy": failure.remedy if failure else None,
        "evidence": failure.status if failure else None,
        "log": str(path),
    }
