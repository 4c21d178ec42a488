"""`doit diagnose`: why the last build failed, or what any log tells: the first real error, the
cause in a sentence, what to do, and where the whole log is. Where the cause is not sure it says so.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap

from tasks.diagnosed import Diagnosed, read
from tasks.digest import canonical
from tasks.effects.files import deliver
from tasks.effects.voice import show
from tasks.effects.witness import kept
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
    told = _told(subject, path)
    if json:
        deliver(Path(json), redact(canonical(told.document)))
    for key, text in _rows(told):
        for place, line in enumerate(_wrapped(text)):
            show(f"{'' if place else key:<{_KEYS}}{line}".rstrip())


def _told(subject: Subject, path: Path) -> Diagnosed:
    """What the log tells; the profile has a say only in a log of its own."""
    opened = subject.opened
    if opened is None or not path.absolute().is_relative_to(Path(opened.layout.build)):
        return read(path, load(subject.root / "config" / "knowledge"), kept(path))
    stages = (one for one in opened.plan.stages if getattr(one.job, "log", None) == path)
    return read(path, opened.knowledge, kept(path), opened, next(stages, None))


def _last(subject: Subject) -> Path:
    """The newest log of a stage that left no manifest; of any stage where the plan is not known."""
    if subject.opened:
        stages = [stage for stage in subject.opened.plan.stages if not _made(stage)]
        logs = [Path(log) for stage in stages if (log := getattr(stage.job, "log", None))]
        built = Path(subject.opened.layout.build)
    else:
        built = subject.build
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


def _rows(told: Diagnosed) -> list[tuple[str, str]]:
    rows, found = [], told.found
    if error := found.first_error:
        rows.append(("first error", error.text))
        of = f", of {found.edge}" if found.edge else ""
        rows.append(("", f"line {error.number} of the log{of}"))
    rows.append(("cause", told.cause or "nothing in this log reads like a failure"))
    if found.by:
        rows.append(("by", found.by))
    if told.remedy:
        rows.append(("to do", told.remedy))
    return [*rows, ("whole log", str(told.log))]


def _wrapped(text: str) -> list[str]:
    return wrap(text, _WIDTH - _KEYS, break_long_words=False, break_on_hyphens=False) or [""]
