"""Find the kind of the first error in a log, and say what the names in the line say."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from tasks.diagnosis.failure_matches import (
    find_required_literals,
    has_windows_text,
    is_excluded,
    is_warning,
    join_wrapped_lines,
    search_nearby,
)
from tasks.diagnosis.first_error import is_error, is_noise
from tasks.diagnosis.log_facts import NO_FACTS, LogFacts
from tasks.diagnosis.log_lines import LogLine
from tasks.diagnosis.traceback_words import read_traceback_words
from tasks.knowledge.error_kinds import (
    HOMEBREW_FOLDERS,
    ErrorKind,
    NameRow,
    can_fill,
    fill_text,
    find_name,
    format_install_steps,
)
from tasks.knowledge.system_packages import SystemPackages
from tasks.knowledge.torch_names import NameHistory, NameKind

_MAX_NAME_LENGTH = 100  # characters of a C++ name in a text
_NEW_STRING = re.compile(
    r"std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> ?>"
)
_MEMBER = re.compile(r"(\w+)::\{((?:\w+ )*[cd]tor)\}")
_HEAD = re.compile(r"^terminate called after throwing ")  # its message is in a line below
_FILE_TABLES = {"headers", "link_libraries"}  # of files that a compiler or linker must find
_TORCH = r"torch|aten\b|\bat::|\bc10\b|caffe2|\bTHC"


@dataclass(frozen=True)
class KindMatch:
    """A kind, the index of its line, and the texts for the names in the line.

    `needs_following` is True if only the line and those after it together are of the kind.
    """

    kind: ErrorKind
    at: int
    cause: str
    remedy: tuple[str, ...]
    needs_following: bool = False


@dataclass(frozen=True)
class KindFinder:
    """The kinds and tables of the knowledge. `facts` are those of the log.

    `history` says which releases of torch have a name that no table has, and `packages` which
    package of the system has it.
    """

    kinds: Sequence[ErrorKind]
    names: Mapping[str, Sequence[NameRow]]
    facts: LogFacts = NO_FACTS
    history: NameHistory | None = None
    packages: SystemPackages | None = None

    def find_kind(self, lines: Sequence[LogLine], *, late: bool = False) -> KindMatch | None:
        """Return the first line of a kind, up to the first error that no kind knows.

        With `late`, only the kinds are used that say no more than what reported the error.
        """
        kinds = self._select_kinds(lines, lambda one: one.late is late)
        has_failed_edge = any(line.failed for line in lines)
        for index, line in enumerate(lines):
            if line.is_harmless or (line.failed is False and has_failed_edge):
                continue
            text = line.text.strip()
            if not text or (is_noise(line.text) and not is_warning(line.text)):
                continue
            if match := self._match_line(kinds, lines, index):
                return match
            if is_error(line) and not _HEAD.search(line.text):
                return None
        return None

    def refine_failure(self, slug: str, lines: Sequence[LogLine], at: int) -> KindMatch | None:
        """Return what a kind says of the line of a known failure that it refines."""
        kinds = self._select_kinds(lines, lambda one: slug in one.refines)
        return self._match_line(kinds, lines, at) if kinds else None

    def _select_kinds(
        self, lines: Sequence[LogLine], is_selected: Callable[[ErrorKind], bool]
    ) -> tuple[ErrorKind, ...]:
        """Return the selected kinds that apply to the machine of the log."""
        selected = tuple(
            one for one in self.kinds if is_selected(one) and self.facts.matches(one.machine)
        )
        if not any(one.platform for one in selected) or has_windows_text(lines):
            return selected
        return tuple(one for one in selected if not one.platform)

    def _match_line(
        self, kinds: tuple[ErrorKind, ...], lines: Sequence[LogLine], index: int
    ) -> KindMatch | None:
        text = lines[index].text.strip()
        wrapped = join_wrapped_lines(lines, index)
        for kind, pattern in _build_pattern_index(kinds).find_candidates(wrapped.lower()):
            match = pattern.search(text) or pattern.search(wrapped)
            if not match or match.start() >= len(text) or is_excluded(kind.unless, text):
                continue
            nearby = search_nearby(kind.near, lines, index) if kind.near else None
            if nearby or not kind.near:
                groups = {**(nearby.groupdict() if nearby else {}), **match.groupdict()}
                values = {key: value for key, value in groups.items() if value}
                if kind.about in {"Python", "loader"}:
                    module = values.get("module", "")
                    words = read_traceback_words(lines, index, "" if kind.own else module)
                    if kind.own and words.get("importer") != module.partition(".")[0]:
                        continue
                    values = {**words, **values}
                near_torch = bool(search_nearby((_TORCH,), lines, index))
                if explained := self._explain(kind, index, values, near_torch=near_torch):
                    return replace(explained, needs_following=not pattern.search(text))
        return None

    def _explain(
        self, kind: ErrorKind, at: int, values: dict[str, str], *, near_torch: bool
    ) -> KindMatch | None:
        """Return the match with the texts of the table's row, where it has them.

        Returns None if the line does not give a word that the cause needs. `near_torch` is True if
        lines nearby name torch: a C++ name can be one of its declarations.
        """
        if symbol := values.get("symbol"):
            name = demangle(symbol)
            values["name"] = _shorten(name)
            if kind.key == "symbol":
                values["symbol"] = name
        values = {**self.facts.words, **values}
        causes, remedy = [kind.cause], kind.remedy
        name_kind, name = _find_torch_name(kind, values)
        history = self.history if near_torch or name_kind != "declarations" else None
        known = history and history.explain_name(name_kind, name)
        found = find_name(self.names.get(kind.table, ()), values.get(kind.key, ""), values)
        # A name in lower case may be a module that the text of another file only mentions
        is_import = " from " in values.get(kind.key, "") or not values.get("name", "").islower()
        if known and (not found or (kind.table == "python_names" and is_import)):
            causes, remedy = [known[0]], known[1]
        elif found:
            row, more = found
            values |= more
            causes.insert(0, row.cause or kind.cause)
            remedy = self._list_steps(kind.table, row) or remedy
        elif packaged := self._find_package(kind, values.get(kind.key, "")):
            causes, remedy = [packaged[0]], packaged[1]
        cause = next((one for one in causes if can_fill(one, values)), "")
        filled = [fill_text(step, values) for step in remedy if can_fill(step, values)]
        steps = tuple(  # of two with the same beginning, only the longer one
            one for one in filled if not any(one != two and two.startswith(one) for two in filled)
        )
        return KindMatch(kind, at, fill_text(cause, values), steps) if cause else None

    def _list_steps(self, table: str, row: NameRow) -> tuple[str, ...]:
        """Return how to install the package of a row, and the row's own steps."""
        install = format_install_steps(row.packages, self.facts.managers)
        steps = (install, *row.remedy) if install else row.remedy
        is_of_homebrew = "brew" in row.packages and "brew" in self.facts.managers
        names_folders = any("brew --prefix" in step for step in steps)
        if table in _FILE_TABLES and is_of_homebrew and not names_folders:
            return (steps[0], HOMEBREW_FOLDERS, *steps[1:])
        return steps

    def _find_package(self, kind: ErrorKind, name: str) -> tuple[str, tuple[str, ...]] | None:
        """Return what is known of the package of a name: a cause, and the steps."""
        managers = self.facts.managers
        return self.packages.explain_name(kind.table, name, managers) if self.packages else None


def _find_torch_name(kind: ErrorKind, values: Mapping[str, str]) -> tuple[NameKind, str]:
    """Return the kind and the text of the name in `history` that a match is about."""
    match kind.table:
        case "headers":
            return "headers", values.get("header", "")
        case "python_modules":
            return "modules", values.get("module", "")
        case "python_names":
            return "definitions", f"{values.get('module', '')}:{values.get('name', '')}"
    name = "" if kind.about == "Python" else values.get("name", "").rpartition("::")[2]
    is_word = name.isalpha() and name.islower()  # such as tgamma: also of C++ and other libraries
    return "declarations", "" if is_word and kind.table == "cpp_names" else name


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


@dataclass(frozen=True)
class _PatternIndex:
    """The patterns of some kinds in order, and those that can match a text, by literal.

    Each pattern in `by_literal` needs one of its literals; those in `others` can match any text.
    """

    patterns: tuple[tuple[ErrorKind, str], ...]
    by_literal: Mapping[str, tuple[int, ...]]
    others: tuple[int, ...]

    def find_candidates(self, lower: str) -> Iterator[tuple[ErrorKind, re.Pattern[str]]]:
        """Yield the patterns that can match a text in lower case."""
        found = set(self.others)
        for literal, numbers in self.by_literal.items():
            if literal in lower:
                found.update(numbers)
        candidates = (self.patterns[number] for number in sorted(found))
        return ((kind, _compile(text)) for kind, text in candidates)


@cache
def _build_pattern_index(kinds: tuple[ErrorKind, ...]) -> _PatternIndex:
    patterns, others = [], []
    by_literal: dict[str, list[int]] = {}
    pairs = ((one, text) for one in kinds for text in one.patterns)
    for number, (kind, text) in enumerate(pairs):
        patterns.append((kind, text))
        literals = find_required_literals(text)
        if literals is None:
            others.append(number)
        for literal in literals or ():
            by_literal.setdefault(literal, []).append(number)
    found = {literal: tuple(numbers) for literal, numbers in by_literal.items()}
    return _PatternIndex(tuple(patterns), found, tuple(others))


def demangle(symbol: str) -> str:
    """Return the C++ name of a mangled symbol (Itanium ABI), or the symbol without one."""
    try:
        from itanium_demangler import parse  # noqa: PLC0415 - only for a diagnosis

        name = parse(re.sub(r"^_(?=_Z)", "", symbol).replace("DF16_", "Dh"))  # _Float16: half
    except (ImportError, RuntimeError, ValueError, LookupError, AttributeError, TypeError):
        return symbol  # the library does not check what it parses
    text = _NEW_STRING.sub("std::__cxx11::string", str(name or symbol)).replace(" const(", "(")
    return _MEMBER.sub(lambda found: f"{found[1]}::{'~' * ('dtor' in found[2])}{found[1]}", text)


def _shorten(name: str) -> str:
    """Return the name without its arguments if it is long."""
    head = name.partition("(")[0]
    return name if len(name) <= _MAX_NAME_LENGTH or not head else f"{head}(...)"
