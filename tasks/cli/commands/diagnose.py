"""`doit diagnose`: explain why the last build failed, or the failure in a given log.

The output begins with problems that would stop a build now: invalid settings, and the problems that
`doit doctor` finds.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tasks.cli.commands import doctor
from tasks.core.canonical_json import format_canonical_json
from tasks.core.check_ids import GATE_CHECK_IDS
from tasks.core.errors import redact_secrets
from tasks.diagnosis.log_io import parse_log
from tasks.doctor.explain_failure_io import FailureExplanation, explain_log
from tasks.knowledge.knowledge_files_io import load_knowledge
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.runlog import run_record_io
from tasks.runlog.memory_monitor_io import read_facts
from tasks.runlog.run_record import StageRun
from tasks.system.files import write_user_file
from tasks.system.screen import print_labeled_text


@dataclass(frozen=True)
class StageFailure:
    """One or more stages that failed with the same error.

    `log` is the path of the log, None if none exists. `error` has the recorded keys what, where
    and todo, and is empty if nothing was recorded. `stage` is "" if only a log is known.
    """

    stage: str
    log: Path | None
    error: Mapping[str, Any] = field(default_factory=dict)


def find_failures(subject: SelectedProfile) -> tuple[StageFailure, ...]:
    """Return the failed stages of the newest run, grouped by error.

    If no failed stage is recorded, return the newest log of an unfinished stage; () if there is no
    such log.
    """
    newest = next(run_record_io.read_runs(subject.build / "records" / "runs"), None)
    stages = [one for one in newest.stages if one.outcome == "failed"] if newest else []
    if not stages:
        log = _find_newest_log(subject)
        return (StageFailure("", log),) if log else ()
    groups: dict[tuple[str, str], list[StageRun]] = {}
    for one in stages:
        key = str(one.error.get("what")), str(one.error.get("where"))
        groups.setdefault(key, []).append(one)
    failures = []
    for group in groups.values():
        path = group[0].diagnosis.get("log")
        log = Path(path) if isinstance(path, str) and Path(path).is_file() else None
        failures.append(StageFailure(", ".join(one.name for one in group), log, group[0].error))
    return tuple(failures)


def _find_newest_log(subject: SelectedProfile) -> Path | None:
    """Return the newest log of an unfinished stage (without a plan: of any stage), or None."""
    if subject.opened:
        logs = [
            Path(stage.job.log)
            for stage in subject.opened.plan.stages
            if getattr(stage.job, "log", None)
            and not all(Path(path).exists() for path in stage.outputs)
        ]
    else:
        logs = list((subject.build / "logs").glob("*.log"))
    existing = (log for log in logs if log.is_file())
    return max(existing, key=lambda log: log.stat().st_mtime_ns, default=None)


_DIAGNOSIS_KEY_WIDTH = 13


def run(subject: SelectedProfile, log: str = "", json: str = "") -> None:
    """Print the diagnosis of the log at path `log`, or of the last failure if `log` is "".

    `json` is the path of an output file, "" for none. If nothing failed, print that.
    """
    problems = () if log else tuple(_list_current_problems(subject))
    failures = (StageFailure("", Path(log)),) if log else find_failures(subject)
    if not failures and not problems:
        problems = (_describe_no_failure(subject),)
    explained = [(one, _diagnose_log(subject, one.log) if one.log else None) for one in failures]
    if json:
        documents = [
            *(
                found.document if found else _build_bare_document(one.error)
                for one, found in explained
            ),
            *(
                _build_bare_document({"what": what, "where": key, "todo": todo})
                for key, what, todo in problems
            ),
        ]
        document = {**documents[0], "also": documents[1:]}
        write_user_file(Path(json), redact_secrets(format_canonical_json(document)))
    for key, what, todo in problems:
        _show_rows([(key, what), *([("to do", todo)] if todo else [])])
    for one, found in explained:
        _show_rows([("stage", one.stage)] if one.stage else [])
        _show_rows(_list_diagnosis_rows(found, one) if found else _list_error_rows(one))


def _list_current_problems(subject: SelectedProfile) -> Iterator[tuple[str, str, str]]:
    """Yield source, message and hint of each problem that would stop a build before it begins."""
    if error := subject.problem:
        location = f"{error.location}: " if error.location else ""
        yield "settings", f"{location}{error.message}", error.hint
        return
    for result in doctor.run_host_checks(subject, GATE_CHECK_IDS):
        if result.level == "problem":
            yield "doctor", f"{result.id}: {result.seen}", result.todo


def _describe_no_failure(subject: SelectedProfile) -> tuple[str, str, str]:
    """Return the row that reports that no run failed and names the folders that were searched."""
    runs, logs = subject.build / "records" / "runs", subject.build / "logs"
    return (
        "no failed run",
        f"the newest record in {runs} has no failure, and {logs} has no log of an unfinished stage",
        "to explain another log: doit diagnose --log FILE",
    )


def _list_error_rows(one: StageFailure) -> Iterator[tuple[str, str]]:
    """Yield a labeled row for each part of a recorded error."""
    for key, name in (("error", "what"), ("where", "where"), ("to do", "todo")):
        if one.error.get(name):
            yield key, str(one.error[name])


def _build_bare_document(error: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON diagnosis of an error that has no log."""
    empty = dict.fromkeys(("cause", "first_error", "evidence", "goes_by", "log"))
    remedy = str(error.get("todo") or "").strip() or None
    texts = {"explanation": error.get("what"), "remedy": remedy}
    return {**empty, "candidates": [], **texts, "where": error.get("where") or None}


def _show_rows(rows: Iterable[tuple[str, str]]) -> None:
    for key, text in rows:
        print_labeled_text(key, text.strip(), _DIAGNOSIS_KEY_WIDTH)


def _diagnose_log(subject: SelectedProfile, path: Path) -> FailureExplanation:
    """Return the explanation of a log; the profile is used only for a log in its build folder."""
    opened, facts = subject.opened, read_facts(path)
    log = parse_log(path, facts.begun if facts else 0)
    if opened is None or not path.absolute().is_relative_to(Path(opened.layout.build)):
        return explain_log(log, load_knowledge(subject.root / "config" / "knowledge"), facts)
    stages = (one for one in opened.plan.stages if getattr(one.job, "log", None) == path)
    return explain_log(log, opened.knowledge, facts, opened, next(stages, None))


def _list_diagnosis_rows(
    explanation: FailureExplanation, failure: StageFailure
) -> Iterator[tuple[str, str]]:
    """Yield the labeled rows of a diagnosis; a hint in the recorded error takes precedence."""
    diagnosis = explanation.found
    if error := diagnosis.first_error:
        yield "first error", error.text
        yield from (("", line) for line in explanation.excerpt)
        edge = f", while building {diagnosis.edge}" if diagnosis.edge else ""
        yield "", f"line {error.number} of the log{edge}"
    yield "cause", explanation.cause or "this log contains no known error"
    if diagnosis.by:
        yield "by", diagnosis.by
    if hint := failure.error.get("todo") or explanation.remedy:
        yield "to do", hint
    yield "whole log", str(explanation.log)
