"""From lines to a diagnosis: the earliest cause, or, where none is sure, what it could be."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tasks.diagnosis.firsterror import FirstError, first_error, is_error, of_compiler, told
from tasks.diagnosis.hits import Hit, hits, is_warning
from tasks.diagnosis.lines import Line, Raw, judged
from tasks.diagnosis.resolver import SLUG, find_conflict
from tasks.knowledge.facts import Failure

_DONE = re.compile(
    r"^\s*Successfully installed |^\s*Build succeeded|^\s*Finished in [\d.]+|"
    r"^-- Build files have been written|^\s*Installed \d+ packages? in"
)
_DIED = re.compile(
    r"ninja: build stopped|Could not build wheels|failed-wheel-build|metadata-generation-failed|"
    r"Failed to build installable|Configuring incomplete"
)
_COMMAND = re.compile(r"^\$ (?:/|[\"']?[A-Z]:\\)")  # how a log of ours begins each command
_WORKS = re.compile(  # what a build does after a warning
    r"^\s*(?:\[\s*\d+/\d+\]|(?:running|copying|adding|creating|building|removing|writing)\s)", re.I
)
_OF_CMAKE = 4  # lines of a message of CMake's in which what it could not find is named
_OF_RESOLVER = 60  # lines in which a resolver explains what it could not resolve
_GOES_ON = re.compile(r"^\s*\[\s*\d+(?:/\d+|%)\]\s|^-- (?:Configuring|Generating) done")


@dataclass(frozen=True)
class Diagnosis:
    """`failure` is the cause, None where it is not sure; `candidates` the slugs that it could be.

    `first_error` is the line to show, `edge` whose output it is, "" where nobody's is known. `by`
    says what it goes by where that is not the log alone, or the log is not enough.
    """

    failure: Failure | None
    candidates: tuple[str, ...]
    first_error: FirstError | None
    edge: str = ""
    by: str = ""


def diagnose(failures: Sequence[Failure], raws: Iterable[Raw]) -> Diagnosis:
    """What a log tells. Its lines need not be all of it: those that can matter, in order."""
    lines = _of_last_try(list(judged(raws)))
    found = [
        _or_conflict(hit, lines, failures) for hit in hits(failures, lines) if _stands(hit, lines)
    ]
    error = first_error(lines)
    by_rank = {
        rank: [hit for hit in found if hit.failure.rank == rank]
        for rank in ("cause", "consequence", "notice", "rest")
    }
    chosen = _chosen(by_rank, lines, error)
    slugs = tuple(dict.fromkeys(hit.failure.slug for hit in found if hit.failure.rank != "rest"))
    if chosen is None:
        return Diagnosis(None, slugs, error)
    line = lines[chosen.at]
    shown = error if chosen.failure.rank == "rest" else told(line)
    if shown and chosen.failure.slug == SLUG and (both := _conflict_at(chosen, lines)):
        shown = replace(shown, text=both)
    return Diagnosis(chosen.failure, (chosen.failure.slug,), shown, line.unit)


def _or_conflict(hit: Hit, lines: Sequence[Line], failures: Sequence[Failure]) -> Hit:
    """Return the hit as a resolver conflict if uv explains a missing version by one."""
    if hit.failure.slug != "no-matching-distribution" or not _conflict_at(hit, lines):
        return hit
    return replace(hit, failure=next(one for one in failures if one.slug == SLUG))


def _conflict_at(hit: Hit, lines: Sequence[Line]) -> str:
    return find_conflict(line.text for line in lines[hit.at : hit.at + _OF_RESOLVER])


def _of_last_try(lines: list[Line]) -> list[Line]:
    """What came after the last command of a log that holds several tries, and after what ended
    well: an older failure is none any more.
    """
    start = 0
    for at, line in enumerate(lines):
        ended_well = _DONE.search(line.text) and not any(
            _DIED.search(before.text) for before in lines[start:at]
        )
        if ended_well or _COMMAND.search(line.text):
            start = at + 1
    return lines[start:]


def _stands(hit: Hit, lines: Sequence[Line]) -> bool:
    """Whether what was met there kept the rest from being made."""
    line, after = lines[hit.at], lines[hit.at + 1 :]
    if line.failed is False and any(other.failed for other in lines):
        return False
    if is_warning(line.text) and any(_WORKS.search(other.text) for other in after):
        return False
    return hit.failure.rank != "notice" or not any(_GOES_ON.search(other.text) for other in after)


def _chosen(
    by_rank: dict[str, list[Hit]], lines: Sequence[Line], error: FirstError | None
) -> Hit | None:
    if causes := by_rank["cause"]:
        unsure = _another_before(causes[0], lines) or _cmake_before(causes[0], lines)
        return None if unsure else causes[0]
    if consequences := by_rank["consequence"]:
        before = lines[: consequences[0].at]
        return None if any(of_compiler(line) for line in before) else consequences[0]
    if error is None or not any(is_error(line) for line in lines):
        return next(iter(by_rank["notice"] or by_rank["rest"]), None)
    return None


def _another_before(hit: Hit, lines: Sequence[Line]) -> bool:
    """Whether an edge failed before, by an error that nobody knows."""
    unit = lines[hit.at].unit
    return any(line.failed and line.unit != unit and of_compiler(line) for line in lines[: hit.at])


def _cmake_before(hit: Hit, lines: Sequence[Line]) -> bool:
    """Whether CMake, which goes on after an error, met another one before, that nobody knows."""
    errors = [at for at in range(hit.at + 1) if lines[at].text.lstrip().startswith("CMake Error ")]
    return len(errors) > 1 and hit.at - errors[-1] <= _OF_CMAKE
