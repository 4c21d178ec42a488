"""Why a stage failed, by its log and the facts of its run: the error gets the cause, the remedy for
this host and profile, and the diagnosis for programs. What somebody wrote by hand stays.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.core.errors import CommandFailedError, InterruptedRunError, TorchyardError
from tasks.diagnosis.decide import Diagnosis, diagnose_lines
from tasks.diagnosis.document import build_diagnosis_document
from tasks.diagnosis.excerpt import LINES_AFTER, LINES_BEFORE, extract_source_excerpt
from tasks.diagnosis.facts import RunFacts, apply_run_facts
from tasks.diagnosis.log_io import read_log, spool_log
from tasks.diagnosis.original import map_to_original
from tasks.diagnosis.remedy import fill_remedy
from tasks.doctor.failures import onsite, source_archs
from tasks.runlog import witness
from tasks.system.typed import add_profile_argument

if TYPE_CHECKING:
    from tasks.core.model import Stage
    from tasks.knowledge import Knowledge
    from tasks.lock.profile import Profile


@dataclass(frozen=True)
class FailureExplanation:
    """What the log told, and what to do about it here: where nothing is sure, to read on; "" where
    nothing failed.
    """

    log: Path
    found: Diagnosis
    remedy: str
    excerpt: tuple[str, ...] = ()

    @property
    def document(self) -> dict[str, Any]:
        """For programs."""
        return build_diagnosis_document(self.found, self.log, self.remedy)

    @property
    def cause(self) -> str:
        """The cause in a sentence, or that it is not sure and what it could be."""
        if failure := self.found.failure:
            return f"{failure.cause} ({failure.slug})"
        if self.found.candidates:
            return f"not sure; it could be {' or '.join(self.found.candidates)}"
        return "not known" if self.found.first_error else ""


def explain_log(
    log: Path,
    knowledge: Knowledge,
    facts: RunFacts | None,
    profile: Profile | None = None,
    stage: Stage | None = None,
) -> FailureExplanation:
    """What a log tells; `profile` is given where it is one of its own, `facts` where they are
    known. Raises `BuildError` where it cannot be read.
    """
    failures = knowledge.failures
    with spool_log(log) as file:
        raws = read_log(file, facts.begun if facts else 0)
        found = apply_run_facts(facts, diagnose_lines(failures, raws), failures)
        shown = _extract_excerpt(file, found, facts.begun if facts else 0)
    if stage and stage.kind == "extensions":
        found = map_to_original(found, stage.job.tree, stage.job.original, os.path.exists)
    if found.failure is None:
        return FailureExplanation(log, found, _format_log_location(log, found), shown)
    if profile is None:
        return FailureExplanation(
            log, found, fill_remedy(found.failure, onsite.build_host_placeholders(knowledge))
        )
    words = onsite.build_profile_placeholders(profile, stage, facts)
    named = source_archs.suggest_arch_removal(stage, found, words["extensions_file"])
    todo = named or fill_remedy(found.failure, words)
    return FailureExplanation(log, found, add_profile_argument(todo, profile.layout.profile))


def _extract_excerpt(log: Path, found: Diagnosis, begun: int) -> tuple[str, ...]:
    """Where no cause is known, what the compiler showed is the most there is."""
    if found.failure or not found.first_error:
        return ()
    number = found.first_error.number
    around = (raw for raw in read_log(log, begun) if raw.number >= number - LINES_BEFORE)
    return extract_source_excerpt(
        tuple(takewhile(lambda raw: raw.number <= number + LINES_AFTER, around)), number
    )


def _format_log_location(log: Path, found: Diagnosis) -> str:
    """Where a person may read on, as nothing here knows more."""
    return f"the lines around it: {log}:{found.first_error.number}" if found.first_error else ""


def explain_error(
    stage: Stage, error: TorchyardError, profile: Profile, seen: witness.MemoryMonitor
) -> FailureExplanation | None:
    """Tell `error`, which ended the stage, why; None where no command with a log did. The facts are
    kept beside the log.
    """
    failed = _find_failed_command(error)
    log = _find_log(failed) if failed else None
    if failed is None or log is None:
        return None
    ended = replace(seen.collect_facts(log), begun=failed.log_offset, code=failed.code)
    facts = replace(ended, jobs=_read_job_count(stage), compiler=_read_compiler(stage))
    witness.write_facts(log, facts)
    told = explain_log(log, profile.knowledge, facts, profile, stage)
    _add_explanation(error, told, {one.slug for one in profile.knowledge.failures})
    return told


def _add_explanation(
    error: TorchyardError, told: FailureExplanation, slugs: Collection[str]
) -> None:
    """A hand-written `todo` stays, and so does its word for the cause, unless the facts of the run
    say that it was another one of `slugs`.
    """
    error.diagnosis, error.log, error.excerpt = told.document, str(told.log), told.excerpt
    failure, first = told.found.failure, told.found.first_error
    if failure and told.found.by and _names_other_cause(error.hint, failure.slug, slugs):
        error.hint = ""
    if not error.hint or (failure and f"({failure.slug})" not in error.hint):
        error.cause = told.cause if failure or not error.hint else ""
    error.hint = error.hint or told.remedy
    if first and isinstance(error, CommandFailedError) and error.exit_description:
        error.message, error.location = (
            f"{error.exit_description}: {first.text}",
            f"{told.log}:{first.number}",
        )


def _names_other_cause(todo: str, slug: str, slugs: Collection[str]) -> bool:
    return any(f"({one})" in todo for one in slugs if one != slug)


def _find_failed_command(error: BaseException | None) -> CommandFailedError | None:
    """The command that failed, where `error` is it or came of it."""
    while error is not None and not isinstance(error, CommandFailedError):
        error = None if isinstance(error, InterruptedRunError) else error.__cause__
    return error


def _find_log(failed: CommandFailedError) -> Path | None:
    name, _, number = failed.location.rpartition(":")
    log = Path(name)
    return log if number.isdecimal() and log.is_file() else None


def _read_job_count(stage: Stage) -> int | None:
    """How many compilers there may have been at once, by the line of the run that just ended."""
    from tasks.runlog import runs  # noqa: PLC0415 - only where something failed

    path = getattr(stage.job, "runs", None)
    last = list(runs.read_history(path))[-1:] if path else []
    return next((run["jobs"] for run in last if isinstance(run.get("jobs"), int)), None)


def _read_compiler(stage: Stage) -> str:
    """Return path and version of the C++ compiler in the manifest deps.json; "" if it is not there
    or an extension's own `env` names another. The `env` of a wheel job is the path of a manifest.
    """
    env = getattr(stage.job, "env", None)
    if isinstance(env, Mapping) and "CXX" in env:
        return ""
    try:
        found = json.loads(Path(stage.job.deps).read_text(encoding="utf-8"))["cxx"]
        return f"{found['path']} {found['version']}".strip()
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return ""
