"""Which lines tell which failure of failures.yaml."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice, takewhile

from tasks.diagnosis.firsterror import is_noise
from tasks.diagnosis.lines import Line
from tasks.diagnosis.literals import literals
from tasks.knowledge.facts import Failure

_NEAR = 40  # lines
_WRAPPED = 4  # lines that a message may be wrapped to: CMake breaks what a compiler said
_FOLLOWS = 300  # letters of each
_QUOTE = "[\"'“”„‘’「」《》]"
_ORDER = {"cause": 0, "consequence": 1, "notice": 2, "hint": 3, "rest": 4}
_STARTS = re.compile(  # another message, which is no rest of the one before
    r"^\s*(?:CMake \w+ at |-- |\[\s*\d+(?:/\d+|%)\] |FAILED: |g?make(?:\[\d+\])?: |Makefile:\d+: )"
)
_WARNS = re.compile(r"^\s*(?:\S+:\d+: )?(?:\w+Warning: |WARNING: |CMake Warning|A module that was)")


@dataclass(frozen=True)
class Hit:
    """A failure and the place in the lines that tells it."""

    failure: Failure
    at: int


def hits(failures: Sequence[Failure], lines: Sequence[Line]) -> Iterator[Hit]:
    """The failures that are told, by line; on one line the most exact alone."""
    windows = any(
        re.search(r"\b[A-Za-z]:[\\/]|\.exe\b|WinError|\bMSVC\b|\bLNK\d{4}\b|\bC\d{4}:", x.text)
        for x in lines
    )
    asked = [one for one in failures if windows or not one.platform]
    seen: dict[str, tuple[Failure, ...]] = {}
    for at, line in enumerate(lines):
        if not line.text.strip() or not _counts(line.text):
            continue
        wrapped = _wrapped(lines, at)
        key = re.sub(r"\d+", "0", wrapped)
        if key not in seen:
            seen[key] = tuple(one for one in asked if _tells(one, line.text, wrapped))
        met = [one for one in seen[key] if _near(one, lines, at)]
        yield from _told(met, at)


def _told(met: Sequence[Failure], at: int) -> Iterator[Hit]:
    """The most exact alone; hints all of them."""
    best = min(met, key=lambda one: _ORDER[one.rank], default=None)
    if best is None:
        return
    yield from (Hit(one, at) for one in met if one is best or one.rank == best.rank == "hint")


def is_warning(text: str) -> bool:
    """Whether the line only warns, of what may be the cause all the same."""
    return bool(_WARNS.match(text))


def _counts(text: str) -> bool:
    return is_warning(text) or not (is_noise(text) or text.lstrip().startswith("raise "))


def _wrapped(lines: Sequence[Line], at: int) -> str:
    """The line and those after it, as one: up to the next message, blank ones left out."""
    following = takewhile(lambda x: not _STARTS.match(x.text), lines[at + 1 : at + 9])
    after = (x.text.strip()[:_FOLLOWS] for x in following if x.text.strip())
    return " ".join((lines[at].text.strip(), *islice(after, _WRAPPED)))


def _tells(failure: Failure, text: str, wrapped: str) -> bool:
    if not _may_tell(failure, wrapped):
        return False
    first = len(text.strip())
    pattern = _pattern(failure.patterns, failure.headers)
    found = pattern.search(text)
    if not found:
        found = pattern.search(wrapped)
        if not found or found.start() >= first:
            return False
    return not (failure.unless and _pattern(failure.unless, ()).search(text))


def _may_tell(failure: Failure, wrapped: str) -> bool:
    texts = _literals(failure.patterns, failure.headers)
    if texts is None:
        return True
    lower = wrapped.lower()
    return any(text in lower for text in texts)


@cache
def _literals(patterns: tuple[str, ...], headers: tuple[str, ...]) -> frozenset[str] | None:
    """Of all of them; None where one could match anything."""
    found = [literals(one) for one in (*patterns, *map(_header, headers))]
    return None if None in found else frozenset().union(*filter(None, found))


def _near(failure: Failure, lines: Sequence[Line], at: int) -> bool:
    if not failure.near:
        return True
    pattern = _pattern(failure.near, ())
    around = lines[max(0, at - _NEAR) : at + _NEAR]
    return any(pattern.search(line.text) for line in around)


@cache
def _pattern(patterns: tuple[str, ...], headers: tuple[str, ...]) -> re.Pattern[str]:
    """All of them as one; `headers` as each compiler says that it could not open one."""
    told = (*patterns, *map(_header, headers))
    return re.compile("|".join(f"(?:{one})" for one in told), re.IGNORECASE)


def _header(name: str) -> str:
    return (
        rf"error: {_QUOTE}?(?:{name}){_QUOTE}?(?: file not found|\s?:\s?No such file)"
        rf"|\bC1083\b[^\n]*?{_QUOTE}(?:{name}){_QUOTE}"
        rf"|cannot open (?:source|include) file {_QUOTE}(?:{name}){_QUOTE}"
    )
