"""Diagnose a log: find the earliest cause or, if it is not certain, the candidates."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tasks.diagnosis.failure_matches import FailureMatch, ParsedLog, is_warning
from tasks.diagnosis.first_error import (
    FirstError,
    find_first_error,
    is_compiler_error,
    is_error,
    parse_error,
)
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

    `failure` is the cause, None if it is not certain; `candidates` are the slugs of the possible
    causes. `first_error` is the line to show, `edge` the Ninja edge that printed it, "" if unknown.
    `by` names the evidence if that is not only the log, or says why the log is not enough.
    """

    failure: Failure | None
    candidates: tuple[str, ...]
    first_error: FirstError | None
    edge: str = ""
    by: str = ""


def diagnose_log(failures: Sequence[Failure], log: ParsedLog) -> Diagnosis:
    """Return the diagnosis of a log. The lines may be a selection: all relevant ones, in order."""
    start = _find_last_attempt(log.lines)
    lines = log.lines[start:]
    matches = [
        _refine_to_conflict(candidate, lines, failures)
        for candidate in log.match_failures(failures, start)
        if _is_blocking(candidate, lines)
    ]
    error = find_first_error(lines)
    by_rank = {
        rank: [candidate for candidate in matches if candidate.failure.rank == rank]
        for rank in ("cause", "consequence", "notice", "rest")
    }
    match = _choose_match(by_rank, lines, error)
    slugs = tuple(
        dict.fromkeys(
            candidate.failure.slug for candidate in matches if candidate.failure.rank != "rest"
        )
    )
    if match is None:
        return Diagnosis(None, slugs, error)
    line = lines[match.at]
    first_error = error if match.failure.rank == "rest" else parse_error(line)
    if (
        first_error
        and match.failure.slug == CONFLICT_SLUG
        and (conflict := _find_conflict_at(match, lines))
    ):
        first_error = replace(first_error, text=conflict)
    return Diagnosis(match.failure, (match.failure.slug,), first_error, line.unit)


def _refine_to_conflict(
    hit: FailureMatch, lines: Sequence[LogLine], failures: Sequence[Failure]
) -> FailureMatch:
    """Return the hit as a resolver conflict if uv explains a missing version by one."""
    if hit.failure.slug != "no-matching-distribution" or not _find_conflict_at(hit, lines):
        return hit
    return replace(
        hit, failure=next(failure for failure in failures if failure.slug == CONFLICT_SLUG)
    )


def _find_conflict_at(hit: FailureMatch, lines: Sequence[LogLine]) -> str:
    return find_conflict(line.text for line in lines[hit.at : hit.at + _RESOLVER_MESSAGE_LINES])


def _find_last_attempt(lines: Sequence[LogLine]) -> int:
    """Return the index after the last command or successful step of the log.

    A log may hold several attempts; failures before that index are obsolete.
    """
    start = 0
    for index, line in enumerate(lines):
        has_succeeded = _STEP_SUCCEEDED.search(line.text) and not any(
            _BUILD_FAILED.search(earlier.text) for earlier in lines[start:index]
        )
        if has_succeeded or _COMMAND_LINE.search(line.text):
            start = index + 1
    return start


def _is_blocking(hit: FailureMatch, lines: Sequence[LogLine]) -> bool:
    """Return True if this failure stopped the build."""
    line, after = lines[hit.at], lines[hit.at + 1 :]
    if line.failed is False and any(other.failed for other in lines):
        return False
    if is_warning(line.text) and any(_BUILD_PROGRESS.search(other.text) for other in after):
        return False
    return hit.failure.rank != "notice" or not any(
        _BUILD_CONTINUES.search(other.text) for other in after
    )


def _choose_match(
    by_rank: dict[str, list[FailureMatch]], lines: Sequence[LogLine], error: FirstError | None
) -> FailureMatch | None:
    if causes := by_rank["cause"]:
        is_uncertain = _has_earlier_failure(causes[0], lines) or _has_earlier_cmake_error(
            causes[0], lines
        )
        return None if is_uncertain else causes[0]
    if consequences := by_rank["consequence"]:
        before = lines[: consequences[0].at]
        return None if any(is_compiler_error(line) for line in before) else consequences[0]
    if error is None or not any(is_error(line) for line in lines):
        return next(iter(by_rank["notice"] or by_rank["rest"]), None)
    return None


def _has_earlier_failure(hit: FailureMatch, lines: Sequence[LogLine]) -> bool:
    """Return True if another edge failed before, with an unknown error."""
    unit = lines[hit.at].unit
    return any(
        line.failed and line.unit != unit and is_compiler_error(line) for line in lines[: hit.at]
    )


def _has_earlier_cmake_error(hit: FailureMatch, lines: Sequence[LogLine]) -> bool:
    """Return True if CMake printed an unknown error before this one.

    CMake continues after errors.
    """
    errors = [
        index
        for index in range(hit.at + 1)
        if lines[index].text.lstrip().startswith("CMake Error ")
    ]
    return len(errors) > 1 and hit.at - errors[-1] <= _CMAKE_MESSAGE_LINES
