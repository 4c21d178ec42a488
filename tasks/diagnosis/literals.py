"""Texts one of which is in whatever a regular expression matches: asked first, they spare most of
the searching.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"(?P<literal>\\[^\w\s]|[^\\()\[\]|?*+{}.^$])"
    r"|(?P<look>\(\?[=!<][^()]*(?:\([^()]*\)[^()]*)*\))|(?P<open>\((?:\?:)?)|(?P<close>\))"
    r"|(?P<bar>\|)|(?P<maybe>[?*]\??|\{0?,\d*\}\??)|(?P<more>\+\??|\{[\d,]+\}\??)"
    r"|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<other>\\.|[.^$])"
)
_LEAST = 3  # letters; shorter ones are everywhere
Texts = frozenset[str]


def literals(pattern: str) -> Texts | None:
    """Lower-case texts, one of which is in each match, capitals apart; None where there is no such
    set.
    """
    alternatives: list[list[Texts]] = [[]]
    stack: list[list[list[Texts]]] = []
    run = ""
    for token in _TOKEN.finditer(pattern):
        kind = token.lastgroup
        if kind == "literal":
            run += token[0][-1].lower()
            continue
        if kind == "maybe":  # what is before it need not be there
            run = run[:-1] if run else _drop(alternatives[-1])
        _end(run, alternatives)
        run = ""
        if kind == "open":
            stack.append(alternatives)
            alternatives = [[]]
        elif kind == "close":
            inner, alternatives = _one_of(alternatives), stack.pop()
            alternatives[-1].append(inner or frozenset())
        else:
            alternatives += [[]] if kind == "bar" else []
            alternatives[-1] += [frozenset[str]()] if kind in {"set", "other"} else []
    _end(run, alternatives)
    return _one_of(alternatives)


def _drop(parts: list[Texts]) -> str:
    if parts:
        parts.pop()
    return ""


def _end(run: str, alternatives: list[list[Texts]]) -> None:
    if run:
        alternatives[-1].append(frozenset({run}))


def _one_of(alternatives: list[list[Texts]]) -> Texts | None:
    """The best of each alternative, all together."""
    found: set[str] = set()
    for parts in alternatives:
        best = max(parts, key=_worth, default=frozenset[str]())
        if _worth(best) < _LEAST:
            return None
        found |= best
    return frozenset(found)


def _worth(texts: Texts) -> int:
    return min(map(len, texts), default=0)
