"""`doit diagnose`: explain why the last build failed, or the failure in a given log."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tasks.cli.commands import doctor
from tasks.cli.commands.json_output import write_json_result
from tasks.core.check_ids import GATE_CHECK_IDS
from tasks.diagnosis.log_io import parse_log
from tasks.doctor.explain_failure_io import FailureExplanation, explain_log
from tasks.knowledge.knowledge_files_io import load_knowledge
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.runlog import run_record_io
from tasks.runlog.memory_monitor_io import read_facts
from tasks.runlog.run_record import StageRun
from tasks.system.screen import print_labeled_text


@dataclass(frozen=True)
class StageFailure:
    """The error of one or more stages. If only a log is known, the other fields are empty."""

    stage: str
    log: Path | None
    error: Mapping[str, Any] = field(default_factory=dict)


def _find_failures(subject: SelectedProfile) -> Iterator[StageFailure]:
    """Yield the failures of the newest run or, if no stage failed, the newest log."""
    newest = next(run_record_io.read_runs(subject.build / "records" / "runs"), None)
    groups: dict[tuple[str, str], list[StageRun]] = {}
    for stage in newest.stages if newest else ():
        if stage.outcome == "failed":
            key = str(stage.error.get("what")), str(stage.error.get("where"))
            groups.setdefault(key, []).append(stage)
    for group in groups.values():
        path = group[0].diagnosis.get("log")
        log = Path(path) if isinstance(path, str) and Path(path).is_file() else None
        yield StageFailure(", ".join(one.name for one in group), log, group[0].error)
    if not groups and (log := _find_newest_log(subject)):
        yield StageFailure("", log)


def _find_newest_log(subject: SelectedProfile) -> Path | None:
    """Return the newest log of an unfinished stage; for a broken profile, the newest of all."""
    logs = (subject.build / "logs").glob("*.log")
    if subject.opened:
        stages = subject.opened.plan.stages
        unfinished = [one for one in stages if not all(Path(it).exists() for it in one.outputs)]
        logs = (Path(one.job.log) for one in unfinished if getattr(one.job, "log", None))
    return max(filter(Path.is_file, logs), key=lambda log: log.stat().st_mtime_ns, default=None)


_DIAGNOSIS_KEY_WIDTH = 13
_NO_FAILURE = "no failure found: the log contains no error, or the build went on after all errors"


def run(subject: SelectedProfile, log: str = "", json: str = "") -> None:
    """Explain the file `log`. If it is "", explain the last failure and the current problems."""
    problems = [] if log else list(_list_current_problems(subject))
    failures = [StageFailure("", Path(log))] if log else list(_find_failures(subject))
    if not failures and not problems:
        runs, logs = subject.build / "records" / "runs", subject.build / "logs"
        no_log = f"{logs} has no log of an unfinished stage"
        message = f"the newest record in {runs} has no failure, and {no_log}"
        hint = "to explain another log: doit diagnose --log FILE"
        problems = [("no failed run", message, hint)]
    explained = [(one, _diagnose_log(subject, one.log) if one.log else None) for one in failures]
    errors = [{"what": what, "where": key, "todo": todo} for key, what, todo in problems]
    documents = [it.document if it else _build_bare_document(one.error) for one, it in explained]
    documents += map(_build_bare_document, errors)
    write_json_result(json, {**documents[0], "also": documents[1:]})
    for key, what, todo in problems:
        _show_rows([(key, what), *([("to do", todo)] if todo else [])])
    for one, found in explained:
        _show_rows([("stage", one.stage)] if one.stage else [])
        names = {"error": "what", "where": "where", "to do": "todo"}
        rows = [(key, str(one.error.get(name) or "")) for key, name in names.items()]
        _show_rows(_list_diagnosis_rows(found, one) if found else (it for it in rows if it[1]))


def _list_current_problems(subject: SelectedProfile) -> Iterator[tuple[str, str, str]]:
    """Yield source, message and hint of each problem that would stop a build before it begins."""
    if error := subject.problem:
        location = f"{error.location}: " if error.location else ""
        yield "settings", f"{location}{error.message}", error.hint
        return
    for result in doctor.run_host_checks(subject, GATE_CHECK_IDS):
        if result.level == "problem":
            yield "doctor", f"{result.id}: {result.seen}", result.todo


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
    """Explain a log, which may be from a build of another profile."""
    opened, facts = subject.opened, read_facts(path)
    log = parse_log(path, facts.begun if facts else 0)
    if opened is None or not path.absolute().is_relative_to(Path(opened.layout.build)):
        return explain_log(log, load_knowledge(Path(subject.project.knowledge)), facts)
    stages = (one for one in opened.plan.stages if getattr(one.job, "log", None) == path)
    return explain_log(log, opened.knowledge, facts, opened, next(stages, None))


def _list_diagnosis_rows(
    explanation: FailureExplanation, failure: StageFailure
) -> Iterator[tuple[str, str]]:
    """Yield the labels and texts of a diagnosis. The hint of the recorded error comes first."""
    diagnosis = explanation.found
    if len(explanation.machine.values) > 1:  # the system alone says little
        yield "log of", str(explanation.machine)
    if error := diagnosis.first_error:
        yield "first error", error.text
        yield from (("", line) for line in explanation.excerpt)
        edge = f", while building {diagnosis.edge}" if diagnosis.edge else ""
        yield "", f"line {error.number} of the log{edge}"
    if explanation.cause:
        yield "cause", explanation.cause
    else:
        yield "result", _NO_FAILURE
    if diagnosis.by:
        yield "by", diagnosis.by
    if hint := failure.error.get("todo") or explanation.remedy:
        steps = str(hint).splitlines()
        yield "to do", steps[0]
        yield from (("", step) for step in steps[1:])
    yield "whole log", str(explanation.log)
