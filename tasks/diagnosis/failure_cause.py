"""Diagnose a log: find the earliest cause or, if the cause is uncertain, the candidates."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tasks.diagnosis.failure_matches import (
    FailureMatch,
    ParsedLog,
    is_warning,
)
from tasks.diagnosis.first_error import (
    FirstError,
    find_consequence,
    is_compiler_error,
    is_error,
    parse_error,
)
from tasks.diagnosis.kind_matches import KindFinder, KindMatch
from tasks.diagnosis.last_attempt import BUILD_PROGRESS, PROMPT, find_last_attempt
from tasks.diagnosis.log_lines import LogLine
from tasks.diagnosis.resolver_conflicts import CONFLICT_SLUG, find_conflict
from tasks.diagnosis.shown_error import (
    find_error_line,
    find_kind_line,
    parse_message,
    prefer_error,
)
from tasks.diagnosis.source_builds import find_script_message
from tasks.knowledge.facts import Failure

_EXCEPTION = re.compile(r"^\s*(?:\w+\.)*\w*(?:Error|Exception): ")
_OPTION_REJECTED = re.compile(r"\bCommand line error D\d{4}\b")  # of Visual C++
_CMAKE_MESSAGE_LINES = 4  # lines of a CMake message that may name what was not found
_RESOLVER_MESSAGE_LINES = 60  # lines of a resolver's explanation
_TRACEBACK_FRAME = re.compile(r"^\s*File \".+\", line \d+")
_TRACEBACK_LINES = 2  # a frame and its source line
TRUNCATED_SLUG = "truncated-log"
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
    start = find_last_attempt(log.lines)
    lines = log.lines[start:]
    matches = _drop_late_exceptions(
        _select_blocking(list(log.match_failures(failures, start)), lines), lines
    )
    for index, one in enumerate(matches):
        # uv explains some missing versions by a conflict
        if one.failure.slug == "no-matching-distribution" and _find_conflict_at(one, lines):
            conflict_failure = next(known for known in failures if known.slug == CONFLICT_SLUG)
            matches[index] = replace(one, failure=conflict_failure)
    error = next((parse_message(line, lines) for line in lines if is_error(line)), None)
    consequence = None if error else find_consequence(lines)
    shown_error = parse_message(consequence, lines) if consequence else error
    match = _choose_match(matches, lines, error)
    if kinds and (kind := _find_kind(kinds, match, lines)):
        shown = prefer_error(lines, find_kind_line(lines, kind))
        return Diagnosis(None, (), parse_message(shown, lines), shown.unit, kind=kind)
    if match is None:
        slugs = (one.failure.slug for one in matches if one.failure.rank != "rest")
        candidates = tuple(dict.fromkeys(slugs))
        late = kinds.find_kind(lines, late=True) if kinds and not candidates else None
        if not (shown_error or late or candidates) and _ends_in_traceback(lines):
            cut = next((one for one in failures if one.slug == TRUNCATED_SLUG), None)
            return Diagnosis(cut, (TRUNCATED_SLUG,) if cut else (), None)
        return Diagnosis(None, candidates, shown_error, kind=late)
    failure = match.failure
    if kinds and failure.slug == TRUNCATED_SLUG and (message := find_script_message(lines)):
        shown = lines[message.at]
        return Diagnosis(None, (), parse_message(shown, lines), shown.unit, kind=message)
    line = prefer_error(lines, find_error_line(match, lines))
    is_rest = failure.rank == "rest"
    first_error = shown_error if is_rest else parse_message(line, lines)
    if failure.slug == CONFLICT_SLUG and (conflict := _find_conflict_at(match, lines)):
        head = parse_error(line)
        first_error = replace(head, text=f"{head.text.rstrip('.:')}: {conflict}")
    refined = _refine(kinds, match, lines, line) if kinds else None
    return Diagnosis(failure, (failure.slug,), first_error, line.unit, kind=refined)


def _refine(
    kinds: KindFinder, match: FailureMatch, lines: Sequence[LogLine], shown: LogLine
) -> KindMatch | None:
    """Return what a kind says of the line of a match, or of the line that reports its error."""
    slug = match.failure.slug
    refined = kinds.refine_failure(slug, lines, match.at)
    if refined or shown is lines[match.at]:
        return refined
    return kinds.refine_failure(slug, lines, lines.index(shown))


def _find_kind(
    kinds: KindFinder, match: FailureMatch | None, lines: Sequence[LogLine]
) -> KindMatch | None:
    """Return the kind that explains more than `match`.

    That is the kind of an error of an earlier command, or any kind if the rank of `match` is lower.
    """
    if match and match.failure.rank == "cause":
        kind = kinds.find_kind(lines[: match.at])
        commands = lines[kind.at : match.at] if kind and is_error(lines[kind.at]) else ()
        return kind if any(PROMPT.match(one.text) for one in commands) else None
    kind = kinds.find_kind(lines)
    is_consequence = match is not None and match.failure.rank == "consequence"
    return None if kind and match and is_consequence and match.at < kind.at else kind


def _ends_in_traceback(lines: Sequence[LogLine]) -> bool:
    """Return True if the log ends with a traceback whose exception was not copied."""
    last = [line.text for line in lines if line.text.strip()][-_TRACEBACK_LINES:]
    return any(_TRACEBACK_FRAME.match(text) for text in last)


def _find_conflict_at(match: FailureMatch, lines: Sequence[LogLine]) -> str:
    return find_conflict(line.text for line in lines[match.at : match.at + _RESOLVER_MESSAGE_LINES])


def _drop_late_exceptions(
    matches: Sequence[FailureMatch], lines: Sequence[LogLine]
) -> list[FailureMatch]:
    """Return the matches without the exceptions of Python after an error of a compiler.

    The build failed at the compiler's error; what a setup.py tries next fails for other reasons.
    """
    errors = (index for index, line in enumerate(lines) if is_compiler_error(line))
    first = next(errors, len(lines))
    return [one for one in matches if one.at < first or not _EXCEPTION.match(lines[one.at].text)]


def _select_blocking(
    matches: Sequence[FailureMatch], lines: Sequence[LogLine]
) -> list[FailureMatch]:
    """Return the matches that can have stopped the build: it did not go on after them."""
    if not matches:
        return []
    has_failed_edge = any(line.failed for line in lines)
    last_progress = _find_last(BUILD_PROGRESS, lines)
    last_step = _find_last(_BUILD_CONTINUES, lines)
    return [
        one
        for one in matches
        if not (
            (has_failed_edge and lines[one.at].failed is False)
            or (one.at < last_progress and is_warning(lines[one.at].text))
            or (one.at < last_step and one.failure.rank == "notice")
        )
    ]


def _find_last(pattern: re.Pattern[str], lines: Sequence[LogLine]) -> int:
    """Return the index of the last line that matches, -1 if none."""
    indexes = range(len(lines) - 1, -1, -1)
    return next((index for index in indexes if pattern.search(lines[index].text)), -1)


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
    """Return True if an earlier error of another edge, cl or CMake may be the cause."""
    unit, before = lines[match.at].unit, lines[: match.at]
    if any(line.failed and line.unit != unit and is_compiler_error(line) for line in before):
        return True
    if any(_OPTION_REJECTED.search(line.text) for line in before):
        return True
    # CMake continues after errors
    starts = (line.text.lstrip().startswith("CMake Error ") for line in lines[: match.at + 1])
    errors = [index for index, is_start in enumerate(starts) if is_start]
    return len(errors) > 1 and match.at - errors[-1] <= _CMAKE_MESSAGE_LINES
