"""A regular expression as the text that it looks for: `CUDA capability sm_0 is not compatible`.

The first of alternatives inside, "0" for digits, "…" for what may be anything; of what need not be
there, words alone. Python's own parser reads the expression. Pure.
"""

from __future__ import annotations

import importlib
from typing import Any

_ELLIPSIS = "…"


def generate_examples(pattern: str) -> tuple[str, ...]:
    """What a person would see, one for each alternative of the whole."""
    parser: Any = importlib.import_module("re._parser")  # sre_parse, which has no public name
    parsed = list(parser.parse(pattern))
    whole = parsed[0][1][1] if _is_alternation(parsed) else [parsed]
    return tuple(_merge_ellipses("".join(map(_render_node, one))) for one in whole)


def _is_alternation(parsed: list[Any]) -> bool:
    return len(parsed) == 1 and str(parsed[0][0]) == "BRANCH"


def _merge_ellipses(told: str) -> str:
    while _ELLIPSIS * 2 in told:
        told = told.replace(_ELLIPSIS * 2, _ELLIPSIS)
    return told.strip()


def _render_node(node: Any) -> str:
    """One element: an operation and its argument."""
    kind, value = str(node[0]), node[1]
    match kind:
        case "LITERAL" | "ANY" | "NOT_LITERAL":
            return chr(value) if kind == "LITERAL" else _ELLIPSIS
        case "IN":
            return _render_set(value)
        case "BRANCH" | "SUBPATTERN":
            return "".join(map(_render_node, value[1][0] if kind == "BRANCH" else value[3]))
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            return _render_repeat(*value)
    return ""  # places, and what is looked at without being taken


def _render_repeat(least: int, most: int, what: Any) -> str:
    told = "".join(map(_render_node, what))
    if told in {_ELLIPSIS, "0"}:
        return told if least or told == _ELLIPSIS else ""
    word = most == 1 and any(map(str.isalpha, told))
    return told * (least or word)


def _render_set(members: Any) -> str:
    kind, value = str(members[0][0]), members[0][1]
    if kind == "LITERAL":
        return chr(value)
    if kind == "CATEGORY" and str(value) == "CATEGORY_DIGIT":
        return "0"
    if kind == "CATEGORY" and str(value) == "CATEGORY_SPACE":
        return " "
    if kind == "RANGE":
        return "0" if chr(value[0]).isdigit() else _ELLIPSIS
    return _ELLIPSIS
