"""Turn pydantic's errors into one sentence: file and line, dotted key, the problem, and the fix."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from tasks.core.errors import SettingsError
from tasks.core.text_formatting import find_nearest_word, format_did_you_mean, format_short_list
from tasks.settings.schema import Settings
from tasks.settings.values import PATTERN_HINTS, Section
from tasks.settings.yaml_tree import Leaf, Tree, YamlNumber

ValidationProblem = Mapping[str, Any]  # one of pydantic's ErrorDetails


def describe_problem(
    problem: ValidationProblem, alike: Sequence[ValidationProblem]
) -> tuple[str, str]:
    """Return what is wrong and what to write.

    `alike` has all problems of the same value: one for each accepted form.
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
    if any(candidate["type"] == "string_type" for candidate in alike) and _is_scalar(value):
        kind = "a number to YAML" if isinstance(value, YamlNumber) else "not a text"
        return f"{format_yaml_value(value)} is {kind}", f'quote it: "{format_yaml_value(value)}"'
    return f"{format_yaml_value(value)} is not accepted", _format_expected_values(alike)


def format_yaml_value(value: Any) -> str:
    """Return a value as YAML writes it; mappings and lists only by their kind."""
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
    return (
        "write "
        f"{' or '.join(dict.fromkeys(_describe_expected_value(problem) for problem in alike))}"
    )


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


ENV_PREFIX = "TORCHYARD__"
PROFILE_VARIABLE = "TORCHYARD_PROFILE"
# Variables that torchyard sets for its child processes, which can include another doit
_EXPORTED_VARIABLES = frozenset(
    f"TORCHYARD_{name}" for name in ("RUN", "DISTRIBUTE", "OUTCOME", "SECONDS", "MESSAGE")
)
_TEST_PREFIXES = ("TORCHYARD_TEST_", "TORCHYARD_BENCHMARK_")


def describe_unused_variables(names: Iterable[str]) -> Iterator[str]:
    """Yield a sentence for each TORCHYARD_ variable that nothing reads."""
    for name in sorted(names):
        is_torchyard_name = name.startswith("TORCHYARD_") and not name.startswith(
            (ENV_PREFIX, *_TEST_PREFIXES)
        )
        if is_torchyard_name and name != PROFILE_VARIABLE and name not in _EXPORTED_VARIABLES:
            nearest = find_nearest_variable(name)
            suggestion = f"; did you mean {nearest}?" if nearest else ""
            yield f"{name} is set, and nothing reads it{suggestion}"


def find_nearest_variable(name: str) -> str:
    """Return the known variable that is most similar to `name`, "" if none is similar."""
    variables = (PROFILE_VARIABLE, *_list_setting_variables())
    suffix = name[len("TORCHYARD") :].lstrip("_")
    if ENV_PREFIX + "__".join(suffix.split("__")[:2]).upper() in variables:
        return ENV_PREFIX + suffix  # a mapping such as build.env accepts any name
    matches = [variable for variable in variables if variable.endswith(f"__{suffix.upper()}")]
    if len(matches) == 1:
        return matches[0]
    by_normalized_name = {_normalize_variable_name(variable): variable for variable in variables}
    nearest = find_nearest_word(_normalize_variable_name(name), by_normalized_name)
    return by_normalized_name[nearest] if nearest else ""


def _list_setting_variables() -> Iterator[str]:
    for name, field in Settings.model_fields.items():
        is_section = isinstance(field.default, Section)
        keys = type(field.default).model_fields if is_section else ("",)
        yield from (f"{ENV_PREFIX}{name}__{key}".rstrip("_").upper() for key in keys)


def _normalize_variable_name(name: str) -> str:
    """Return the name without the common prefix and with single underscores."""
    return re.sub(r"_+", "_", name.lower().removeprefix("torchyard")).strip("_")


KeyPath = tuple[Any, ...]

_MAX_OTHER_PROBLEMS = 5  # that are named in addition to the first

# Former names of keys that are too different from the current name to be guessed
_RENAMED_KEYS: dict[KeyPath, str] = {("validation", "checks"): "only"}


def explain_validation_error(error: ValidationError, tree: Tree) -> SettingsError:
    """Return the first problem as a `SettingsError`; its hint lists the others."""
    problems: Sequence[ValidationProblem] = error.errors(include_url=False)
    problem = _select_main_problem(problems)
    path = _find_key_path(problem)
    if problem["type"] == "extra_forbidden":
        message, hint = _describe_unknown_key(path, find_key_location(path, tree))
    else:
        message, hint = describe_problem(
            problem, [candidate for candidate in problems if _find_key_path(candidate) == path]
        )
    if other_keys := [
        _format_key_location(key, tree) for key in _find_wrong_keys(problems) if key != path
    ]:
        other_problems = (
            f"wrong as well: {format_short_list(sorted(other_keys), _MAX_OTHER_PROBLEMS)}"
        )
        hint = "; ".join(part for part in (hint, other_problems) if part)
    return SettingsError(
        f"{_join_key_path(path)}: {message}", location=find_key_location(path, tree), hint=hint
    )


def _format_key_location(path: KeyPath, tree: Tree) -> str:
    return f"{_join_key_path(path)} ({find_key_location(path, tree)})"


def _join_key_path(path: KeyPath) -> str:
    return ".".join(map(str, path))


def _select_main_problem(problems: Sequence[ValidationProblem]) -> ValidationProblem:
    """Return the problem to report first.

    A value with several accepted forms fails each of them. The problem at the deepest key belongs
    to the form that was meant.
    """
    first_path = problems[0]["loc"]
    return max(
        (problem for problem in problems if problem["loc"][:2] == first_path[:2]), key=_rank_problem
    )


def _rank_problem(problem: ValidationProblem) -> tuple[bool, bool, int]:
    unknown_key = problem["type"] == "extra_forbidden"
    return isinstance(problem.get("input"), YamlNumber), unknown_key, len(_find_key_path(problem))


def _find_wrong_keys(problems: Sequence[ValidationProblem]) -> set[KeyPath]:
    """Return the keys to fix; a list is left out if one of its items is wrong."""
    paths = {_find_key_path(problem) for problem in problems}
    return {
        path
        for path in paths
        if not any(len(other) > len(path) and other[: len(path)] == path for other in paths)
    }


def _find_key_path(problem: ValidationProblem) -> KeyPath:
    subkeys = getattr(problem.get("ctx", {}).get("error"), "keys", ())  # of an `InvalidKeyError`
    return (*(part for part in problem["loc"] if not _is_union_variant(part)), *subkeys)


def _is_union_variant(part: Any) -> bool:
    """Return True for a path part that pydantic adds for a member of a union.

    Examples: "literal['auto']", "tuple[str, ...]".
    """
    return isinstance(part, str) and (
        any(character in part for character in "[(")
        or part in {"str", "int", "bool", "constrained-int"}
    )


def _describe_unknown_key(path: KeyPath, where: str) -> tuple[str, str]:
    if (
        len(path) == 1
        and where.upper().startswith(ENV_PREFIX)
        and (nearest := find_nearest_variable(where))
    ):
        return "unknown key", f"did you mean {nearest}?"
    known_keys = _list_known_keys(path[:-1])
    current_name = _RENAMED_KEYS.get(path, str(path[-1]))
    return (
        f"unknown key{format_did_you_mean(current_name, known_keys)}",
        f"known here: {', '.join(known_keys)}",
    )


def _list_known_keys(path: KeyPath) -> list[str]:
    model: type[BaseModel] = Settings
    for part in path:
        if isinstance(part, int):
            continue
        field = model.model_fields.get(part)
        model = _find_section_model(field.annotation) if field else model
    return sorted(model.model_fields)


def _find_section_model(annotation: Any) -> type[BaseModel]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(
        (
            _find_section_model(arg)
            for arg in get_args(annotation)
            if arg is not Ellipsis and _has_model(arg)
        ),
        Settings,
    )


def _has_model(annotation: Any) -> bool:
    is_model = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    return is_model or any(_has_model(arg) for arg in get_args(annotation))


def find_key_location(path: KeyPath, tree: Tree) -> str:
    """Return the line of the value, or of its nearest ancestor that has a line."""
    node: Leaf | Tree = tree
    for depth, part in enumerate(path):
        if isinstance(node, Leaf):
            return _find_item_location(node, path[depth:])
        if part not in node:
            break
        node = node[part]
    while isinstance(node, dict) and node:
        node = next(iter(node.values()))
    return node.location if isinstance(node, Leaf) else "config"


def _find_item_location(leaf: Leaf, path: KeyPath) -> str:
    locations = (leaf.lines.get(path[:length]) for length in range(len(path), 0, -1))
    return next((location for location in locations if location), leaf.location)
