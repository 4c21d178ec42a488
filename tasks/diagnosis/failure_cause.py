"""Diagnose a log: find the earliest cause or, if the cause is uncertain, the candidates."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tasks.diagnosis.failure_matches import FailureMatch, ParsedLog, is_warning
from tasks.diagnosis.first_error import FirstError, is_compiler_error, is_error, parse_error
from tasks.diagnosis.kind_matches import KindFinder, KindMatch
from tasks.diagnosis.log_lines import LogLine
from tasks.diagnosis.resolver_conflicts import CONFLICT_SLUG, find_conflict
from tasks.knowledge.facts import Failure

_STEP_SUCCEEDED = re.compile(
    r"^\s*Successfully installed |^\s*Build succeeded|^\s*Finished in [\d.]+|"
    r"^-- Build files have been written|^\s*Installed \d+ packages? in"
)
_BUILD_FAILED = re.compile(
    r"ninja: build stopped|Could not build wheels|failed-wheel-build|metadata-generation-failed|"
    r"Failed to build installable|Configuring incomplete"
)
_COMMAND_LINE = re.compile(r"^\$ (?:/|[\"']?[A-Z]:\\)")  # how torchyard's logs begin each command
_BUILD_PROGRESS = re.compile(  # printed by a build that continues after a warning
    r"^\s*(?:\[\s*\d+/\d+\]|(?:running|copying|adding|creating|building|removing|writing)\s)", re.I
)
_CMAKE_MESSAGE_LINES = 4  # lines of a CMake message that may name what was not found
_RESOLVER_MESSAGE_LINES = 60  # lines of a resolver's explanation
_BUILD_CONTINUES = re.compile(r"^\s*\[\s*\d+(?:/\d+|%)\]\s|^-- (?:Configuring|Generating) done")


@dataclass(frozen=True)
class Diagnosis:
    """The result of a diagnosis.

    `failure` is the cause, `None` if uncertain. `candidates` are the slugs of possible causes.
    `first_error` is the line to show, and `edge` the Ninja edge that printed it, "" if unknown.
    `by` names the facts of the run that were used or missing. `kind` is the kind of the first error
    if no known failure is the cause, or it says more of the line of `failure`.
    """

    failure: Failure | None
    candidates: tuple[str, ...]
    first_error: FirstError | None
    edge: str = ""
    by: str = ""
    kind: KindMatch | None = None


def diagnose_log(
    failures: Sequence[Failure], log: ParsedLog, kinds: KindFinder | None = None
) -> Diagnosis:
    """Return the diagnosis of the last attempt in a log.

    If no known failure is the cause, it has the kind of the first error.
    """
    start = _find_last_attempt(log.lines)
    lines = log.lines[start:]
    matches = [one for one in log.match_failures(failures, start) if _is_blocking(one, lines)]
    for index, one in enumerate(matches):
        # uv explains some missing versions by a conflict
        if one.failure.slug == "no-matching-distribution" and _find_conflict_at(one, lines):
            conflict_failure = next(known for known in failures if known.slug == CONFLICT_SLUG)
            matches[index] = replace(one, failure=conflict_failure)
    error = next((parse_error(line) for line in lines if is_error(line)), None)
    match = _choose_match(matches, lines, error)
    if kinds and (kind := _find_kind(kinds, match, lines)):
        return Diagnosis(None, (), parse_error(lines[kind.at]), lines[kind.at].unit, kind=kind)
    if match is None:
        slugs = (one.failure.slug for one in matches if one.failure.rank != "rest")
        candidates = tuple(dict.fromkeys(slugs))
        late = kinds.find_kind(lines, late=True) if kinds and not candidates else None
        return Diagnosis(None, candidates, error, kind=late)
    line, failure = lines[match.at], match.failure
    first_error = error if failure.rank == "rest" else parse_error(line)
    if first_error and failure.slug == CONFLICT_SLUG:
        conflict = _find_conflict_at(match, lines)
        first_error = replace(first_error, text=conflict or first_error.text)
    refined = kinds.refine_failure(failure.slug, lines, match.at) if kinds else None
    return Diagnosis(failure, (failure.slug,), first_error, line.unit, kind=refined)


def _find_kind(
    kinds: KindFinder, match: FailureMatch | None, lines: Sequence[LogLine]
) -> KindMatch | None:
    """Return the kind that explains more than `match`: a failure of a lower rank, or none."""
    if match and match.failure.rank == "cause":
        return None
    kind = kinds.find_kind(lines)
    is_consequence = match is not None and match.failure.rank == "consequence"
    return None if kind and match and is_consequence and match.at < kind.at else kind


def _find_conflict_at(match: FailureMatch, lines: Sequence[LogLine]) -> str:
    return find_conflict(line.text for line in lines[match.at : match.at + _RESOLVER_MESSAGE_LINES])


def _find_last_attempt(lines: Sequence[LogLine]) -> int:
    """Return the index of the first line of the last attempt."""
    start = 0
    for index, line in enumerate(lines):
        has_succeeded = _STEP_SUCCEEDED.search(line.text) and not any(
            _BUILD_FAILED.search(earlier.text) for earlier in lines[start:index]
        )
        if has_succeeded or _COMMAND_LINE.search(line.text):
            start = index + 1
    return start


def _is_blocking(match: FailureMatch, lines: Sequence[LogLine]) -> bool:
    line, after = lines[match.at], lines[match.at + 1 :]
    if line.failed is False and any(other.failed for other in lines):
        return False
    if is_warning(line.text) and any(_BUILD_PROGRESS.search(other.text) for other in after):
        return False
    is_notice = match.failure.rank == "notice"
    return not (is_notice and any(_BUILD_CONTINUES.search(other.text) for other in after))


def _choose_match(
    matches: Sequence[FailureMatch], lines: Sequence[LogLine], error: FirstError | None
) -> FailureMatch | None:
    """Return the match that explains the failed build, `None` if the cause is uncertain."""
    firsts: dict[str, FailureMatch] = {}  # by rank
    for match in matches:
        firsts.setdefault(match.failure.rank, match)
    if cause := firsts.get("cause"):
        return None if _has_unknown_error_before(cause, lines) else cause
    if consequence := firsts.get("consequence"):
        before = lines[: consequence.at]
        return None if any(is_compiler_error(line) for line in before) else consequence
    if error is None or not any(is_error(line) for line in lines):
        return firsts.get("notice") or firsts.get("rest")
    return None


def _has_unknown_error_before(match: FailureMatch, lines: Sequence[LogLine]) -> bool:
    """Return True if an earlier error of another edge or of CMake may be the cause."""
    unit, before = lines[match.at].unit, lines[: match.at]
    if any(line.failed and line.unit != unit and is_compiler_error(line) for line in before):
        return True
    # CMake continues after errors
    starts = (line.text.lstrip().startswith("CMake Error ") for line in lines[: match.at + 1])
    errors = [index for index, is_start in enumerate(starts) if is_start]
    return len(errors) > 1 and match.at - errors[-1] <= _CMAKE_MESSAGE_LINES
