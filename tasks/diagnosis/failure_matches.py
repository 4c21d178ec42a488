"""Parse a log, and match its lines with the failures of failures.yaml."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice, takewhile
from pathlib import PurePath

from tasks.diagnosis.first_error import is_noise
from tasks.diagnosis.log_lines import LogLine, RawLine, parse_lines
from tasks.knowledge.facts import Failure

_REGEX_TOKEN = re.compile(
    r"(?P<literal>\\[^\w\s]|[^\\()\[\]|?*+{}.^$])"
    r"|(?P<look>\(\?[=!<][^()]*(?:\([^()]*\)[^()]*)*\))|(?P<open>\((?:\?:)?)|(?P<close>\))"
    r"|(?P<bar>\|)|(?P<maybe>[?*]\??|\{0?,\d*\}\??)|(?P<more>\+\??|\{[\d,]+\}\??)"
    r"|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<other>\\.|[.^$])"
)
_MIN_LITERAL_LENGTH = 3  # characters; shorter ones are too common
LiteralTexts = frozenset[str]


def find_required_literals(pattern: str) -> LiteralTexts | None:
    """Return lower-case texts, at least one of which is in each match of the pattern.

    Compare them without case. None if there is no such set.
    """
    alternatives: list[list[LiteralTexts]] = [[]]
    stack: list[list[list[LiteralTexts]]] = []
    literal = ""
    for token in _REGEX_TOKEN.finditer(pattern):
        kind = token.lastgroup
        if kind == "literal":
            literal += token[0][-1].lower()
            continue
        if kind == "maybe":  # the element before it is optional
            literal = literal[:-1] if literal else _drop_last_part(alternatives[-1])
        _end_literal(literal, alternatives)
        literal = ""
        if kind == "open":
            stack.append(alternatives)
            alternatives = [[]]
        elif kind == "close":
            group, alternatives = _choose_literals(alternatives), stack.pop()
            alternatives[-1].append(group or frozenset())
        else:
            alternatives += [[]] if kind == "bar" else []
            alternatives[-1] += [frozenset[str]()] if kind in {"set", "other"} else []
    _end_literal(literal, alternatives)
    return _choose_literals(alternatives)


def _drop_last_part(parts: list[LiteralTexts]) -> str:
    if parts:
        parts.pop()
    return ""


def _end_literal(run: str, alternatives: list[list[LiteralTexts]]) -> None:
    if run:
        alternatives[-1].append(frozenset({run}))


def _choose_literals(alternatives: list[list[LiteralTexts]]) -> LiteralTexts | None:
    """Return the best literals of all alternatives together."""
    literals: set[str] = set()
    for parts in alternatives:
        best = max(parts, key=_compute_min_length, default=frozenset[str]())
        if _compute_min_length(best) < _MIN_LITERAL_LENGTH:
            return None
        literals |= best
    return frozenset(literals)


def _compute_min_length(texts: LiteralTexts) -> int:
    return min(map(len, texts), default=0)


_NEARBY_LINES = 40  # lines
_WRAPPED_LINES = 4  # continuation lines of a message: CMake wraps compiler output
_MAX_WRAPPED_LENGTH = 300  # characters of each
_QUOTE = "[\"'“”„‘’「」《》]"
_RANK_ORDER = {"cause": 0, "consequence": 1, "notice": 2, "hint": 3, "rest": 4}
_MESSAGE_START = re.compile(  # the start of another message
    r"^\s*(?:CMake \w+ at |-- |\[\s*\d+(?:/\d+|%)\] |FAILED: |g?make(?:\[\d+\])?: |Makefile:\d+: )"
)
_WARNING_MESSAGE = re.compile(
    r"^\s*(?:\S+:\d+: )?(?:\w+Warning: |WARNING: |CMake Warning|A module that was)"
)


@dataclass(frozen=True)
class FailureMatch:
    """A failure and the index of the line that matches it."""

    failure: Failure
    at: int


class ParsedLog:
    """The lines of the log at `path`, and the failures that each line matches.

    Parsing and matching run only once for all users of the log.
    """

    def __init__(self, raws: Iterable[RawLine], path: PurePath | None = None) -> None:
        self.path = path
        self.raws = tuple(raws)
        self.lines = tuple(parse_lines(self.raws))
        self._failures: Sequence[Failure] = ()
        self._matched: Mapping[int, tuple[Failure, ...]] = {}

    def find_lines(self, failures: Sequence[Failure], slugs: Collection[str]) -> Iterator[LogLine]:
        """Yield the lines that match one of the failures with these slugs."""
        for index, matched in self._match_lines(failures).items():
            if any(
                failure.slug in slugs and _has_nearby_pattern(failure, self.lines, index)
                for failure in matched
            ):
                yield self.lines[index]

    def match_failures(self, failures: Sequence[Failure], start: int = 0) -> Iterator[FailureMatch]:
        """Yield the most specific failure for each line from `start` on; indexes start there."""
        lines = self.lines[start:]
        for index, matched in self._match_lines(failures).items():
            if index >= start:
                confirmed = [
                    failure
                    for failure in matched
                    if _has_nearby_pattern(failure, lines, index - start)
                ]
                yield from _select_best_matches(confirmed, index - start)

    def _match_lines(self, failures: Sequence[Failure]) -> Mapping[int, tuple[Failure, ...]]:
        if self._failures != failures:
            self._failures, self._matched = failures, dict(_match_lines(failures, self.lines))
        return self._matched


def _match_lines(
    failures: Sequence[Failure], lines: Sequence[LogLine]
) -> Iterator[tuple[int, tuple[Failure, ...]]]:
    """Yield the index of each matching line, with the failures that its text matches."""
    windows = any(
        re.search(
            r"\b[A-Za-z]:[\\/]|\.exe\b|WinError|\bMSVC\b|\bLNK\d{4}\b|\bC\d{4}:", log_line.text
        )
        for log_line in lines
    )
    applicable = [one for one in failures if windows or not one.platform]
    matches_by_text: dict[str, tuple[Failure, ...]] = {}
    for index, line in enumerate(lines):
        if not line.text.strip() or not _is_relevant(line.text):
            continue
        wrapped = _join_wrapped_lines(lines, index)
        key = re.sub(r"\d+", "0", wrapped)
        if key not in matches_by_text:
            matches_by_text[key] = tuple(
                one for one in applicable if _is_match(one, line.text, wrapped)
            )
        if matches_by_text[key]:
            yield index, matches_by_text[key]


def _select_best_matches(met: Sequence[Failure], at: int) -> Iterator[FailureMatch]:
    """Yield the most specific failure; if that is a hint, all hints."""
    best = min(met, key=lambda one: _RANK_ORDER[one.rank], default=None)
    if best is None:
        return
    yield from (
        FailureMatch(one, at) for one in met if one is best or one.rank == best.rank == "hint"
    )


def is_warning(text: str) -> bool:
    """Return True if the line is only a warning, which may still be the cause."""
    return bool(_WARNING_MESSAGE.match(text))


def _is_relevant(text: str) -> bool:
    return is_warning(text) or not (is_noise(text) or text.lstrip().startswith("raise "))


def _join_wrapped_lines(lines: Sequence[LogLine], at: int) -> str:
    """Join the line with the lines after it up to the next message, without blank lines."""
    following = takewhile(lambda x: not _MESSAGE_START.match(x.text), lines[at + 1 : at + 9])
    after = (x.text.strip()[:_MAX_WRAPPED_LENGTH] for x in following if x.text.strip())
    return " ".join((lines[at].text.strip(), *islice(after, _WRAPPED_LINES)))


def _is_match(failure: Failure, text: str, wrapped: str) -> bool:
    if not _can_match(failure, wrapped):
        return False
    first_length = len(text.strip())
    pattern = _compile_patterns(failure.patterns, failure.headers)
    match = pattern.search(text)
    if not match:
        match = pattern.search(wrapped)
        if not match or match.start() >= first_length:
            return False
    return not (failure.unless and _compile_patterns(failure.unless, ()).search(text))


def _can_match(failure: Failure, wrapped: str) -> bool:
    texts = _collect_literals(failure.patterns, failure.headers)
    if texts is None:
        return True
    lower = wrapped.lower()
    return any(text in lower for text in texts)


@cache
def _collect_literals(patterns: tuple[str, ...], headers: tuple[str, ...]) -> frozenset[str] | None:
    """Return the literals of all patterns, None if a pattern has none."""
    literals = [
        find_required_literals(pattern)
        for pattern in (*patterns, *map(_build_header_pattern, headers))
    ]
    return None if None in literals else frozenset().union(*filter(None, literals))


def _has_nearby_pattern(failure: Failure, lines: Sequence[LogLine], at: int) -> bool:
    if not failure.near:
        return True
    pattern = _compile_patterns(failure.near, ())
    nearby = lines[max(0, at - _NEARBY_LINES) : at + _NEARBY_LINES]
    return any(pattern.search(line.text) for line in nearby)


@cache
def _compile_patterns(patterns: tuple[str, ...], headers: tuple[str, ...]) -> re.Pattern[str]:
    """Combine all patterns; `headers` match the message of each compiler about a missing header."""
    expressions = (*patterns, *map(_build_header_pattern, headers))
    return re.compile("|".join(f"(?:{expression})" for expression in expressions), re.IGNORECASE)


def _build_header_pattern(name: str) -> str:
    return (
        rf"error: {_QUOTE}?(?:{name}){_QUOTE}?(?: file not found|\s?:\s?No such file)"
        rf"|\bC1083\b[^\n]*?{_QUOTE}(?:{name}){_QUOTE}"
        rf"|cannot open (?:source|include) file {_QUOTE}(?:{name}){_QUOTE}"
    )
