"""Texts one of which is in whatever a regular expression matches: asked first, they spare most of
the searching.
"""

from __future__ import annotations

import re

_REGEX_TOKEN = re.compile(
    r"(?P<literal>\\[^\w\s]|[^\\()\[\]|?*+{}.^$])"
    r"|(?P<look>\(\?[=!<][^()]*(?:\([^()]*\)[^()]*)*\))|(?P<open>\((?:\?:)?)|(?P<close>\))"
    r"|(?P<bar>\|)|(?P<maybe>[?*]\??|\{0?,\d*\}\??)|(?P<more>\+\??|\{[\d,]+\}\??)"
    r"|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<other>\\.|[.^$])"
)
_MIN_LITERAL_LENGTH = 3  # letters; shorter ones are everywhere
LiteralTexts = frozenset[str]


def find_required_literals(pattern: str) -> LiteralTexts | None:
    """Lower-case texts, one of which is in each match, capitals apart; None where there is no such
    set.
    """
    alternatives: list[list[LiteralTexts]] = [[]]
    stack: list[list[list[LiteralTexts]]] = []
    run = ""
    for token in _REGEX_TOKEN.finditer(pattern):
        kind = token.lastgroup
        if kind == "literal":
            run += token[0][-1].lower()
            continue
        if kind == "maybe":  # what is before it need not be there
            run = run[:-1] if run else _drop_last_part(alternatives[-1])
        _end_literal(run, alternatives)
        run = ""
        if kind == "open":
            stack.append(alternatives)
            alternatives = [[]]
        elif kind == "close":
            inner, alternatives = _choose_literals(alternatives), stack.pop()
            alternatives[-1].append(inner or frozenset())
        else:
            alternatives += [[]] if kind == "bar" else []
            alternatives[-1] += [frozenset[str]()] if kind in {"set", "other"} else []
    _end_literal(run, alternatives)
    return _choose_literals(alternatives)


def _drop_last_part(parts: list[LiteralTexts]) -> str:
    if parts:
        parts.pop()
    return ""


def _end_literal(run: str, alternatives: list[list[LiteralTexts]]) -> None:
    if run:
        alternatives[-1].append(frozenset({run}))


def _choose_literals(alternatives: list[list[LiteralTexts]]) -> LiteralTexts | None:
    """The best of each alternative, all together."""
    found: set[str] = set()
    for parts in alternatives:
        best = max(parts, key=_compute_min_length, default=frozenset[str]())
        if _compute_min_length(best) < _MIN_LITERAL_LENGTH:
            return None
        found |= best
    return frozenset(found)


def _compute_min_length(texts: LiteralTexts) -> int:
    return min(map(len, texts), default=0)
