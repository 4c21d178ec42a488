"""What pydantic found wrong with one value, as a sentence, and what to write instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tasks.settings.forms import WORDS
from tasks.settings.yamltree import Number

Problem = Mapping[str, Any]  # one of pydantic's ErrorDetails


def sentence(problem: Problem, alike: Sequence[Problem]) -> tuple[str, str]:
    """What is wrong, and what to write. `alike` are all problems of the same value: one for each
    form that would have been accepted.
    """
    value = problem["input"]
    match problem["type"]:
        case "missing":
            return "this key must be there", "add it"
        case "value_error":
            return str(problem["ctx"]["error"]), ""
        case "string_pattern_mismatch":
            return f"{shown(value)} does not have the right form", WORDS[problem["ctx"]["pattern"]]
    if value is None:
        return "it has no value", f"{_write(alike)}, or leave the key out"
    if any(other["type"] == "string_type" for other in alike) and _is_scalar(value):
        kind = "a number to YAML" if isinstance(value, Number) else "not a text"
        return f"{shown(value)} is {kind}", f'quote it: "{shown(value)}"'
    return f"{shown(value)} is not accepted", _write(alike)


def shown(value: Any) -> str:
    """A value as YAML writes it, what is long by its kind."""
    match value:
        case Number():
            return value.text
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{value}"'
        case Mapping():
            return "a mapping"
        case list() | tuple():
            return "a list"
    return str(value)


def _is_scalar(value: Any) -> bool:
    return isinstance(value, Number | bool | int)


def _write(alike: Iterable[Problem]) -> str:
    return f"write {' or '.join(dict.fromkeys(_form(problem) for problem in alike))}"


def _form(problem: Problem) -> str:
    kind = str(problem["type"])
    limits = problem.get("ctx", {})
    match kind.partition("_")[0]:
        case "literal":
            return str(limits["expected"]).replace("'", "")
        case "tuple":
            return 'a list: ["…"]'
        case "int" | "greater":
            return f"a whole number from {limits.get('ge', 1)}"
        case "bool":
            return "true or false"
        case "model" | "dict":
            return "keys and values"
    return "a text"
