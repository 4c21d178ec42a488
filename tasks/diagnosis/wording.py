"""A regular expression as the text that it looks for: `CUDA capability sm_0 is not compatible`.

The first of alternatives inside, "0" for digits, "…" for what may be anything; of what need not be
there, words alone. Python's own parser reads the expression. Pure.
"""

from __future__ import annotations

import importlib
from typing import Any

_ANY = "…"


def wordings(pattern: str) -> tuple[str, ...]:
    """What a person would see, one for each alternative of the whole."""
    parser: Any = importlib.import_module("re._parser")  # sre_parse, which has no public name
    parsed = list(parser.parse(pattern))
    whole = parsed[0][1][1] if _is_choice(parsed) else [parsed]
    return tuple(_tidy("".join(map(_told, one))) for one in whole)


def _is_choice(parsed: list[Any]) -> bool:
    return len(parsed) == 1 and str(parsed[0][0]) == "BRANCH"


def _tidy(told: str) -> str:
    while _ANY * 2 in told:
        told = told.replace(_ANY * 2, _ANY)
    return told.strip()


def _told(node: Any) -> str:
    """One element: an operation and its argument."""
    kind, value = str(node[0]), node[1]
    match kind:
        case "LITERAL" | "ANY" | "NOT_LITERAL":
            return chr(value) if kind == "LITERAL" else _ANY
        case "IN":
            return _one_of(value)
        case "BRANCH" | "SUBPATTERN":
            return "".join(map(_told, value[1][0] if kind == "BRANCH" else value[3]))
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            return _repeated(*value)
    return ""  # places, and what is looked at without being taken


def _repeated(least: int, most: int, what: Any) -> str:
    told = "".join(map(_told, what))
    if told in {_ANY, "0"}:
        return told if least or told == _ANY else ""
    word = most == 1 and any(map(str.isalpha, told))
    return told * (least or word)


def _one_of(members: Any) -> str:
    kind, value = str(members[0][0]), members[0][1]
    if kind == "LITERAL":
        return chr(value)
    if kind == "CATEGORY" and str(value) == "CATEGORY_DIGIT":
        return "0"
    if kind == "CATEGORY" and str(value) == "CATEGORY_SPACE":
        return " "
    if kind == "RANGE":
        return "0" if chr(value[0]).isdigit() else _ANY
    return _ANY
