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

from tasks.core.errors import BuildError, CommandFailedError, StoppedError
from tasks.diagnosis.decide import Diagnosis, diagnose
from tasks.diagnosis.document import document
from tasks.diagnosis.excerpt import AFTER, BEFORE, excerpt
from tasks.diagnosis.facts import Facts, judged_by
from tasks.diagnosis.log_io import read_log, spooled
from tasks.diagnosis.original import of_original
from tasks.diagnosis.remedy import remedy
from tasks.doctor.failures import onsite, source_archs
from tasks.runlog import witness
from tasks.system.typed import for_profile

if TYPE_CHECKING:
    from tasks.core.model import Stage
    from tasks.knowledge import Knowledge
    from tasks.lock.profile import Profile


@dataclass(frozen=True)
class Diagnosed:
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
        return document(self.found, self.log, self.remedy)

    @property
    def cause(self) -> str:
        """The cause in a sentence, or that it is not sure and what it could be."""
        if failure := self.found.failure:
            return f"{failure.cause} ({failure.slug})"
        if self.found.candidates:
            return f"not sure; it could be {' or '.join(self.found.candidates)}"
        return "not known" if self.found.first_error else ""


def read(
    log: Path,
    knowledge: Knowledge,
    facts: Facts | None,
    profile: Profile | None = None,
    stage: Stage | None = None,
) -> Diagnosed:
    """What a log tells; `profile` is given where it is one of its own, `facts` where they are
    known. Raises `BuildError` where it cannot be read.
    """
    failures = knowledge.failures
    with spooled(log) as file:
        raws = read_log(file, facts.begun if facts else 0)
        found = judged_by(facts, diagnose(failures, raws), failures)
        shown = _excerpt(file, found, facts.begun if facts else 0)
    if stage and stage.room == "extensions":
        found = of_original(found, stage.job.tree, stage.job.original, os.path.exists)
    if found.failure is None:
        return Diagnosed(log, found, _around(log, found), shown)
    if profile is None:
        return Diagnosed(log, found, remedy(found.failure, onsite.of_host(knowledge)))
    words = onsite.of_profile(profile, stage, facts)
    named = source_archs.hint(stage, found, words["extensions_file"])
    todo = named or remedy(found.failure, words)
    return Diagnosed(log, found, for_profile(todo, profile.layout.profile))


def _excerpt(log: Path, found: Diagnosis, begun: int) -> tuple[str, ...]:
    """Where no cause is known, what the compiler showed is the most there is."""
    if found.failure or not found.first_error:
        return ()
    number = found.first_error.number
    around = (raw for raw in read_log(log, begun) if raw.number >= number - BEFORE)
    return excerpt(tuple(takewhile(lambda raw: raw.number <= number + AFTER, around)), number)


def _around(log: Path, found: Diagnosis) -> str:
    """Where a person may read on, as nothing here knows more."""
    return f"the lines around it: {log}:{found.first_error.number}" if found.first_error else ""


def explained(
    stage: Stage, error: BuildError, profile: Profile, seen: witness.Witness
) -> Diagnosed | None:
    """Tell `error`, which ended the stage, why; None where no command with a log did. The facts are
    kept beside the log.
    """
    failed = _command(error)
    log = _log(failed) if failed else None
    if failed is None or log is None:
        return None
    ended = replace(seen.facts(log), begun=failed.begun, code=failed.code)
    facts = replace(ended, jobs=_jobs(stage), compiler=_compiler(stage))
    witness.keep(log, facts)
    told = read(log, profile.knowledge, facts, profile, stage)
    _tell(error, told, {one.slug for one in profile.knowledge.failures})
    return told


def _tell(error: BuildError, told: Diagnosed, slugs: Collection[str]) -> None:
    """A hand-written `todo` stays, and so does its word for the cause, unless the facts of the run
    say that it was another one of `slugs`.
    """
    error.diagnosis, error.log, error.excerpt = told.document, str(told.log), told.excerpt
    failure, first = told.found.failure, told.found.first_error
    if failure and told.found.by and _names_another(error.todo, failure.slug, slugs):
        error.todo = ""
    if not error.todo or (failure and f"({failure.slug})" not in error.todo):
        error.cause = told.cause if failure or not error.todo else ""
    error.todo = error.todo or told.remedy
    if first and isinstance(error, CommandFailedError) and error.ended:
        error.what, error.where = f"{error.ended}: {first.text}", f"{told.log}:{first.number}"


def _names_another(todo: str, slug: str, slugs: Collection[str]) -> bool:
    return any(f"({one})" in todo for one in slugs if one != slug)


def _command(error: BaseException | None) -> CommandFailedError | None:
    """The command that failed, where `error` is it or came of it."""
    while error is not None and not isinstance(error, CommandFailedError):
        error = None if isinstance(error, StoppedError) else error.__cause__
    return error


def _log(failed: CommandFailedError) -> Path | None:
    name, _, number = failed.where.rpartition(":")
    log = Path(name)
    return log if number.isdecimal() and log.is_file() else None


def _jobs(stage: Stage) -> int | None:
    """How many compilers there may have been at once, by the line of the run that just ended."""
    from tasks.runlog import runs  # noqa: PLC0415 - only where something failed

    path = getattr(stage.job, "runs", None)
    last = list(runs.read(path))[-1:] if path else []
    return next((run["jobs"] for run in last if isinstance(run.get("jobs"), int)), None)


def _compiler(stage: Stage) -> str:
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
