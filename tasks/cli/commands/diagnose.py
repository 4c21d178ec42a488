"""`doit diagnose`: explain why the last build, or any log, failed.

Prints the first real error, the cause in a sentence, what to do, and the path of the whole log. An
uncertain cause is marked. Problems that would stop a build now come first: invalid settings, and
the findings of `doit doctor`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tasks.cli.commands import doctor
from tasks.core.canonical_json import format_canonical_json
from tasks.core.check_ids import GATE_CHECK_IDS
from tasks.core.errors import redact_secrets
from tasks.core.model import Stage
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
    """One or more stages that failed in the same way.

    `log` is the path of the log, if there is one. `error` holds what, where and todo of the record,
    if it has them. `stage` is "" if only a log is known.
    """

    stage: str
    log: Path | None
    error: Mapping[str, Any] = field(default_factory=dict)


def find_failures(subject: SelectedProfile) -> tuple[StageFailure, ...]:
    """Return the failures of the newest run.

    If that run had no failure, or no run is recorded, return the newest log of a stage without a
    manifest; () if there is no such log.
    """
    newest = next(run_record_io.read_runs(find_records_folder(subject)), None)
    stages = [one for one in newest.stages if one.outcome == "failed"] if newest else []
    if not stages:
        log = _find_newest_log(subject)
        return (StageFailure("", log),) if log else ()
    stages_by_error: dict[tuple[str, str], list[StageRun]] = {}
    for one in stages:
        stages_by_error.setdefault(
            (str(one.error.get("what")), str(one.error.get("where"))), []
        ).append(one)
    return tuple(
        StageFailure(
            ", ".join(one.name for one in group), _find_stage_log(group[0]), group[0].error
        )
        for group in stages_by_error.values()
    )


def find_records_folder(subject: SelectedProfile) -> Path:
    """Return the folder that holds the record of each run of a profile."""
    return subject.build / "records" / "runs"


def find_logs_folder(subject: SelectedProfile) -> Path:
    """Return the folder that holds the stage logs of a profile."""
    return subject.build / "logs"


def _find_stage_log(one: StageRun) -> Path | None:
    log_path = one.diagnosis.get("log")
    log = Path(log_path) if isinstance(log_path, str) else None
    return log if log and log.is_file() else None


def _find_newest_log(subject: SelectedProfile) -> Path | None:
    """Return the newest log of an unfinished stage, or of any stage if there is no plan."""
    if subject.opened:
        stages = [stage for stage in subject.opened.plan.stages if not _has_outputs(stage)]
        logs = [Path(log) for stage in stages if (log := getattr(stage.job, "log", None))]
    else:
        logs = list(find_logs_folder(subject).glob("*.log"))
    existing = [log for log in logs if log.is_file()]
    return max(existing, key=lambda log: log.stat().st_mtime_ns, default=None)


def _has_outputs(stage: Stage) -> bool:
    return all(Path(path).exists() for path in stage.outputs)


_DIAGNOSIS_KEY_WIDTH = 13
KeyRows = list[tuple[str, str]]


def run(subject: SelectedProfile, log: str = "", json: str = "") -> None:
    """Print the diagnosis of `log`, or of the last failure. `json` is the path of an output file.

    If nothing failed, that is printed.
    """
    problems = () if log else tuple(_list_current_problems(subject))
    failures = (StageFailure("", Path(log)),) if log else find_failures(subject)
    if not failures and not problems:
        problems = (_describe_no_failure(subject),)
    explained = [(one, _diagnose_log(subject, one.log) if one.log else None) for one in failures]
    if json:
        documents = [
            _build_failure_document(one, explanation) for one, explanation in explained
        ] + [_build_problem_document(*row) for row in problems]
        document = {**documents[0], "also": documents[1:]}
        write_user_file(Path(json), redact_secrets(format_canonical_json(document)))
    _show_rows([row for one in problems for row in _format_problem_rows(*one)])
    for one, explanation in explained:
        _show_rows(
            [
                *_format_stage_rows(one, explanation),
                *(_format_diagnosis_rows(explanation, one) if explanation else ()),
            ]
        )


def _list_current_problems(subject: SelectedProfile) -> Iterator[tuple[str, str, str]]:
    """Yield what would stop a build before its first stage: source, problem, hint."""
    if error := subject.problem:
        yield (
            "settings",
            f"{error.location}: {error.message}" if error.location else error.message,
            error.hint,
        )
        return
    for symptom in doctor.run_host_checks(subject, GATE_CHECK_IDS):
        if symptom.level == "problem":
            yield "doctor", f"{symptom.id}: {symptom.seen}", symptom.todo


def _describe_no_failure(subject: SelectedProfile) -> tuple[str, str, str]:
    """Return the row for no failure, with the folders that were searched."""
    runs, logs = find_records_folder(subject), find_logs_folder(subject)
    message = (
        f"no failure in the newest record of {runs}, and no log of an unfinished stage in {logs}"
    )
    return "no failed run", message, "to read another log: doit diagnose --log FILE"


def _format_problem_rows(key: str, what: str, todo: str) -> KeyRows:
    return [(key, what), *([("to do", todo)] if todo else [])]


def _build_problem_document(key: str, what: str, todo: str) -> dict[str, Any]:
    return _build_bare_document({"what": what, "where": key, "todo": todo})


def _format_stage_rows(one: StageFailure, found: FailureExplanation | None) -> KeyRows:
    """Return the stage, and its recorded error if there is no diagnosis of a log."""
    rows = [("stage", one.stage)] if one.stage else []
    if found is None:
        keys = (("error", "what"), ("where", "where"), ("to do", "todo"))
        rows += [(key, str(one.error[name])) for key, name in keys if one.error.get(name)]
    return rows


def _build_failure_document(one: StageFailure, found: FailureExplanation | None) -> dict[str, Any]:
    return found.document if found else _build_bare_document(one.error)


def _build_bare_document(error: Mapping[str, Any]) -> dict[str, Any]:
    """Return a diagnosis document for an error without a log."""
    empty = dict.fromkeys(("cause", "first_error", "evidence", "goes_by", "log"))
    words = {
        "explanation": error.get("what"),
        "remedy": str(error.get("todo") or "").strip() or None,
    }
    return {**empty, "candidates": [], **words, "where": error.get("where") or None}


def _show_rows(rows: Iterable[tuple[str, str]]) -> None:
    for key, text in rows:
        print_labeled_text(key, text.strip(), _DIAGNOSIS_KEY_WIDTH)


def _diagnose_log(subject: SelectedProfile, path: Path) -> FailureExplanation:
    """Return the explanation of a log.

    The profile is considered only for logs in its build folder.
    """
    opened, facts = subject.opened, read_facts(path)
    log = parse_log(path, facts.begun if facts else 0)
    if opened is None or not path.absolute().is_relative_to(Path(opened.layout.build)):
        return explain_log(log, load_knowledge(subject.root / "config" / "knowledge"), facts)
    stages = (one for one in opened.plan.stages if getattr(one.job, "log", None) == path)
    return explain_log(log, opened.knowledge, facts, opened, next(stages, None))


def _format_diagnosis_rows(told: FailureExplanation, of: StageFailure) -> KeyRows:
    """Return the rows of a diagnosis.

    The hint of the recorded error comes before the one from the log: it may have been written by
    hand.
    """
    rows, diagnosis = [], told.found
    if error := diagnosis.first_error:
        rows.append(("first error", error.text))
        edge = f", of {diagnosis.edge}" if diagnosis.edge else ""
        rows += [("", line) for line in (*told.excerpt, f"line {error.number} of the log{edge}")]
    rows.append(("cause", told.cause or "nothing in this log reads like a failure"))
    if diagnosis.by:
        rows.append(("by", diagnosis.by))
    if hint := of.error.get("todo") or told.remedy:
        rows.append(("to do", hint))
    return [*rows, ("whole log", str(told.log))]
