"""What pydantic found wrong with one value, as a sentence, and what to write instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tasks.settings.forms import PATTERN_HINTS
from tasks.settings.yamltree import YamlNumber

ValidationProblem = Mapping[str, Any]  # one of pydantic's ErrorDetails


def describe_problem(
    problem: ValidationProblem, alike: Sequence[ValidationProblem]
) -> tuple[str, str]:
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
            return f"{format_yaml_value(value)} does not have the right form", PATTERN_HINTS[
                problem["ctx"]["pattern"]
            ]
    if value is None:
        return "it has no value", f"{_format_expected_values(alike)}, or leave the key out"
    if any(other["type"] == "string_type" for other in alike) and _is_scalar(value):
        kind = "a number to YAML" if isinstance(value, YamlNumber) else "not a text"
        return f"{format_yaml_value(value)} is {kind}", f'quote it: "{format_yaml_value(value)}"'
    return f"{format_yaml_value(value)} is not accepted", _format_expected_values(alike)


def format_yaml_value(value: Any) -> str:
    """A value as YAML writes it, what is long by its kind."""
    match value:
        case YamlNumber():
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
    return isinstance(value, YamlNumber | bool | int)


def _format_expected_values(alike: Iterable[ValidationProblem]) -> str:
    return f"write {' or '.join(dict.fromkeys(_describe_expected_value(problem) for problem in alike))}"


def _describe_expected_value(problem: ValidationProblem) -> str:
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
