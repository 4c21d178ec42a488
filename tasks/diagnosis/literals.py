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
        if kind == "maybe" and run:
            run = run[:-1]  # the last letter need not be there
        elif kind == "maybe" and alternatives[-1]:
            alternatives[-1].pop()
        _end(run, alternatives)
        run = ""
        match kind:
            case "bar":
                alternatives.append([])
            case "open":
                stack.append(alternatives)
                alternatives = [[]]
            case "close":
                inner, alternatives = _one_of(alternatives), stack.pop()
                alternatives[-1].append(inner or frozenset())
            case "set" | "other":
                alternatives[-1].append(frozenset())
            case _:
                pass
    _end(run, alternatives)
    return _one_of(alternatives)


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
