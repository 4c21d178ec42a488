"""`doit diagnose`: why the last build failed, or what any log tells: the first real error, the
cause in a sentence, what to do, and where the whole log is. Where the cause is not sure it says so.

What would keep a build from beginning now, settings or what `doit doctor` finds, is said first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tasks.cli.commands import doctor
from tasks.cli.commands.failed import Failed, failed, folder_of_logs, folder_of_records
from tasks.core.check_ids import GATE
from tasks.core.digest import canonical
from tasks.core.errors import redact
from tasks.core.formatting import lines
from tasks.doctor.failures.diagnosed import Diagnosed, read
from tasks.knowledge import load
from tasks.lock.profile import Subject
from tasks.runlog.witness import kept
from tasks.system import tty
from tasks.system.files import deliver
from tasks.system.voice import show

_KEYS = 13
Rows = list[tuple[str, str]]


def run(subject: Subject, log: str = "", json: str = "") -> None:
    """Print the diagnosis of `log`, or of what failed last; `json` is a file to write it to. That
    nothing failed is an answer, too.
    """
    now = () if log else tuple(_now(subject))
    ones = (Failed("", Path(log)),) if log else failed(subject)
    if not ones and not now:
        now = (_nothing(subject),)
    told = [(one, _told(subject, one.log) if one.log else None) for one in ones]
    if json:
        documents = [_document(one, found) for one, found in told] + [_of_now(*row) for row in now]
        whole = {**documents[0], "also": documents[1:]}
        deliver(Path(json), redact(canonical(whole)))
    _show([row for one in now for row in _rows_now(*one)])
    for one, found in told:
        _show([*_of_record(one, found), *(_rows(found, one) if found else ())])


def _now(subject: Subject) -> Iterator[tuple[str, str, str]]:
    """What a build would not get past before its first stage: who finds it, what, what to do."""
    if told := subject.problem:
        yield "settings", f"{told.where}: {told.what}" if told.where else told.what, told.todo
        return
    for symptom in doctor.diagnose(subject, GATE):
        if symptom.level == "problem":
            yield "doctor", f"{symptom.id}: {symptom.seen}", symptom.todo


def _nothing(subject: Subject) -> tuple[str, str, str]:
    """What was found where nothing failed, and where it was looked for."""
    runs, logs = folder_of_records(subject), folder_of_logs(subject)
    what = f"no failure in the newest record of {runs}, and no log of an unfinished stage in {logs}"
    return "no failed run", what, "to read another log: doit diagnose --log FILE"


def _rows_now(key: str, what: str, todo: str) -> Rows:
    return [(key, what), *([("to do", todo)] if todo else [])]


def _of_now(key: str, what: str, todo: str) -> dict[str, Any]:
    return _bare({"what": what, "where": key, "todo": todo})


def _of_record(one: Failed, found: Diagnosed | None) -> Rows:
    """The stage, and its error where no log tells that."""
    rows = [("stage", one.stage)] if one.stage else []
    if found is None:
        keys = (("error", "what"), ("where", "where"), ("to do", "todo"))
        rows += [(key, str(one.error[name])) for key, name in keys if one.error.get(name)]
    return rows


def _document(one: Failed, found: Diagnosed | None) -> dict[str, Any]:
    return found.document if found else _bare(one.error)


def _bare(error: Mapping[str, Any]) -> dict[str, Any]:
    """In the form of a diagnosis, of what no log told."""
    empty = dict.fromkeys(("cause", "first_error", "evidence", "goes_by", "log"))
    words = {
        "explanation": error.get("what"),
        "remedy": str(error.get("todo") or "").strip() or None,
    }
    return {**empty, "candidates": [], **words, "where": error.get("where") or None}


def _show(rows: Iterable[tuple[str, str]]) -> None:
    for key, text in rows:
        for line in lines.rows(key, text.strip(), _KEYS, tty.width()):
            show(line)


def _told(subject: Subject, path: Path) -> Diagnosed:
    """What the log tells; the profile has a say only in a log of its own."""
    opened = subject.opened
    if opened is None or not path.absolute().is_relative_to(Path(opened.layout.build)):
        return read(path, load(subject.root / "config" / "knowledge"), kept(path))
    stages = (one for one in opened.plan.stages if getattr(one.job, "log", None) == path)
    return read(path, opened.knowledge, kept(path), opened, next(stages, None))


def _rows(told: Diagnosed, of: Failed) -> Rows:
    """What a build said to do, it says again: a remedy may be written by hand."""
    rows, found = [], told.found
    if error := found.first_error:
        rows.append(("first error", error.text))
        edge = f", of {found.edge}" if found.edge else ""
        rows += [("", line) for line in (*told.excerpt, f"line {error.number} of the log{edge}")]
    rows.append(("cause", told.cause or "nothing in this log reads like a failure"))
    if found.by:
        rows.append(("by", found.by))
    if todo := of.error.get("todo") or told.remedy:
        rows.append(("to do", todo))
    return [*rows, ("whole log", str(told.log))]
