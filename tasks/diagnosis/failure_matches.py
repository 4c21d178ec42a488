"""Parse a log, and match its lines with the failures of failures.yaml."""

import importlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice, takewhile
from pathlib import PurePath
from typing import Any

from tasks.diagnosis.first_error import is_noise
from tasks.diagnosis.log_lines import LogLine, RawLine, parse_lines
from tasks.knowledge.facts import Failure

_MIN_LITERAL_LENGTH = 3  # characters; shorter ones are too common
LiteralTexts = frozenset[str]


def find_required_literals(pattern: str) -> LiteralTexts | None:
    """Return lower-case texts; every match of the pattern contains at least one of them.

    Returns `None` if one of the texts would be too short for a useful search.
    """
    parser: Any = importlib.import_module("re._parser")  # sre_parse, which is not public
    texts = _find_literals(parser.parse(pattern))
    return texts if _compute_min_length(texts) >= _MIN_LITERAL_LENGTH else None


def _compute_min_length(texts: LiteralTexts) -> int:
    return min(map(len, texts), default=0)


def _find_literals(nodes: Iterable[Any], literal: str = "") -> LiteralTexts:
    """Return texts; every match of a parsed expression contains at least one of them.

    `literal` is the plain text directly before the expression.
    """
    parts = []
    for operation, value in nodes:
        kind = str(operation)
        if kind == "LITERAL":
            literal += chr(value).lower()
            continue
        parts.append(frozenset({literal}))
        if kind == "SUBPATTERN" or (kind.endswith("_REPEAT") and value[0]):
            parts.append(_find_literals(value[-1]))
        elif kind == "BRANCH":
            parts.append(frozenset().union(*(_find_literals(one, literal) for one in value[1])))
        literal = ""
    return max([*parts, frozenset({literal})], key=_compute_min_length)


_NEARBY_LINES = 40  # lines before and after a match
_WRAPPED_LINES = 4  # continuation lines of a message: CMake wraps compiler output
_MAX_WRAPPED_LENGTH = 300  # characters of each continuation line
_QUOTE = "[\"'“”„‘’「」《》]"
_RANKS = ("cause", "consequence", "notice", "hint", "rest")  # the most specific first
_WINDOWS_TEXT = re.compile(
    r"\b[A-Za-z]:[\\/]|\.exe\b|WinError|\bMSVC\b|\bLNK\d{4}\b|\bC\d{4}:|"
    r"SDK version \S* ?to target Windows|Building for: (?:Visual Studio|NMake)"
)
_MESSAGE_START = re.compile(  # the start of another message
    r"^\s*(?:CMake \w+ at |-- |\[\s*\d+(?:/\d+|%)\] |FAILED: |Traceback |"
    r"g?make(?:\[\d+\])?: |Makefile:\d+: |ptxas )|"
    r"^\s*(?:[A-Za-z]:)?[^\s:(]+[:(]\d+(?:[:,]\d+)?\)?\s?:\s(?:fatal )?(?:error|warning)\b"
)
_WRAPPER = re.compile(  # what pip prints around the output of a build: not joined with it
    r"^\s*(?:error: subprocess-exited-with-error|(?:ERROR: )?Command errored out with exit status|"
    r"[│|] exit code: |╰─> |error: metadata-generation-failed)"
)
_WARNING_MESSAGE = re.compile(
    r"^\s*(?:\S+:\d+: )?(?:\w+Warning: |WARNING(?:\[XFORMERS\]|:xformers)?: ?|CMake Warning|"
    r"A module that was|[\d\s:.-]*W tensorflow/)"
)


@dataclass(frozen=True)
class FailureMatch:
    """A failure and the index of the log line that matches it."""

    failure: Failure
    at: int


class ParsedLog:
    """The lines of a log and the failures that match each line.

    `path` is `None` if the lines do not come from a file.
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
            named = (one for one in matched if one.slug in slugs)
            if any(has_nearby_pattern(one.near, self.lines, index) for one in named):
                yield self.lines[index]

    def match_failures(self, failures: Sequence[Failure], start: int = 0) -> Iterator[FailureMatch]:
        """Yield the failure with the best rank for each line from index `start` on.

        If the best rank is "hint", yield all hints of the line. Indexes are relative to `start`.
        """
        lines = self.lines[start:]
        for index, matched in self._match_lines(failures).items():
            at = index - start
            near = (one for one in matched if at >= 0 and has_nearby_pattern(one.near, lines, at))
            confirmed = list(near)
            best = min(confirmed, key=lambda one: _RANKS.index(one.rank), default=None)
            for one in confirmed:
                if best and (one is best or one.rank == best.rank == "hint"):
                    yield FailureMatch(one, at)

    def _match_lines(self, failures: Sequence[Failure]) -> Mapping[int, tuple[Failure, ...]]:
        if self._failures != failures:
            self._failures, self._matched = failures, dict(_match_lines(failures, self.lines))
        return self._matched


def _match_lines(
    failures: Sequence[Failure], lines: Sequence[LogLine]
) -> Iterator[tuple[int, tuple[Failure, ...]]]:
    """Yield the index of each line that matches failures, with these failures."""
    is_windows = has_windows_text(lines)
    applicable = [one for one in failures if is_windows or not one.platform]
    matches_by_text: dict[str, tuple[Failure, ...]] = {}
    for index, line in enumerate(lines):
        text = line.text.strip()
        is_irrelevant = line.is_probe or is_noise(line.text) or text.startswith("raise ")
        if not text or (is_irrelevant and (line.is_probe or not is_warning(line.text))):
            continue
        wrapped = text if _WRAPPER.match(line.text) else join_wrapped_lines(lines, index)
        key = re.sub(r"\d+", "0", wrapped)
        if key not in matches_by_text:
            matched = (one for one in applicable if _is_match(one, line.text, wrapped))
            matches_by_text[key] = tuple(matched)
        if matches_by_text[key]:
            yield index, matches_by_text[key]


def has_windows_text(lines: Iterable[LogLine]) -> bool:
    """Return True if the log is from Windows."""
    return any(_WINDOWS_TEXT.search(line.text) for line in lines)


def join_wrapped_lines(lines: Sequence[LogLine], index: int) -> str:
    """Return a line with the lines after it, up to the next message, without blank lines."""
    below = lines[index + 1 : index + 9]
    following = takewhile(lambda one: not _MESSAGE_START.match(one.text), below)
    after = (one.text.strip()[:_MAX_WRAPPED_LENGTH] for one in following if one.text.strip())
    return " ".join((lines[index].text.strip(), *islice(after, _WRAPPED_LINES)))


def is_warning(text: str) -> bool:
    """Return True if the line is a warning, which can still be the cause of a failure."""
    return bool(_WARNING_MESSAGE.match(text))


def _is_match(failure: Failure, text: str, wrapped: str) -> bool:
    literals = _collect_literals(failure.patterns, failure.headers)
    lower = wrapped.lower()
    if literals is not None and not any(literal in lower for literal in literals):
        return False
    pattern = _compile_patterns(failure.patterns, failure.headers)
    if not pattern.search(text):
        match = pattern.search(wrapped)
        if not match or match.start() >= len(text.strip()):
            return False
    return not is_excluded(failure.unless, text)


def is_excluded(unless: tuple[str, ...], text: str) -> bool:
    """Return True if one of the patterns `unless` matches the line."""
    return bool(unless and _compile_patterns(unless, ()).search(text))


def needs_following_lines(failure: Failure, text: str) -> bool:
    """Return True if the failure matches the line only with the lines after it."""
    return not _compile_patterns(failure.patterns, failure.headers).search(text)


def has_nearby_pattern(near: tuple[str, ...], lines: Sequence[LogLine], at: int) -> bool:
    """Return True if one of the patterns `near` matches a line around `at`, or if it is empty."""
    return not near or bool(search_nearby(near, lines, at))


def search_nearby(
    patterns: tuple[str, ...], lines: Sequence[LogLine], at: int
) -> re.Match[str] | None:
    """Return a match around line `at`: of the first pattern that has one, the first line."""
    nearby = lines[max(0, at - _NEARBY_LINES) : at + _NEARBY_LINES]
    compiled = (_compile_patterns((one,), ()) for one in patterns)
    matches = (one.search(line.text) for one in compiled for line in nearby)
    return next(filter(None, matches), None)


@cache
def _collect_literals(patterns: tuple[str, ...], headers: tuple[str, ...]) -> frozenset[str] | None:
    """Return the required literals of all patterns, `None` if one pattern has no useful literal."""
    expressions = (*patterns, *map(_build_header_pattern, headers))
    literals = [find_required_literals(expression) for expression in expressions]
    return None if None in literals else frozenset().union(*filter(None, literals))


@cache
def _compile_patterns(patterns: tuple[str, ...], headers: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern that matches any of `patterns`, and errors about missing `headers`."""
    expressions = (*patterns, *map(_build_header_pattern, headers))
    return re.compile("|".join(f"(?:{expression})" for expression in expressions), re.IGNORECASE)


def _build_header_pattern(name: str) -> str:
    return (
        rf"error: {_QUOTE}?(?:{name}){_QUOTE}?(?: file not found|\s?:\s?No such file)"
        rf"|\bC1083\b[^\n]*?{_QUOTE}(?:{name}){_QUOTE}"
        rf"|cannot open (?:source|include) file {_QUOTE}(?:{name}){_QUOTE}"
    )
