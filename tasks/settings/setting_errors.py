"""Explain a wrong setting in one sentence: file and line, dotted key, the problem, and the fix."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, Meta, ValidationError, convert

from tasks.core.errors import SettingsError
from tasks.core.text_formatting import find_nearest_word, format_did_you_mean, format_short_list
from tasks.settings.schema import Settings
from tasks.settings.values import PATTERN_HINTS, InvalidKeyError, Section, StrictModel, list_fields
from tasks.settings.yaml_tree import Leaf, Tree, YamlNumber

KeyPath = tuple[Any, ...]

_MAX_OTHER_PROBLEMS = 5  # the most problems that are named in addition to the first

# Former names of keys that are too different from the current name to be guessed
_RENAMED_KEYS: dict[KeyPath, str] = {("validation", "checks"): "only"}
_REMOVED_VALUES = {
    "sccache-dist": "sccache-dist is no longer supported: set build.distribute: distcc or icecream "
    "(docs/distribute.md)"
}


@dataclass(frozen=True)
class Problem:
    """A wrong value, or an unknown or missing key. `keys` is the path to the value or key."""

    keys: KeyPath
    value: Any
    message: str
    hint: str = ""
    is_unknown_key: bool = False


def explain_invalid_settings(values: Mapping[str, Any], tree: Tree, error: str) -> SettingsError:
    """Return an error for the first wrong key. The hint also lists other wrong keys."""
    problems = list(find_problems(values, Settings)) or [Problem((), values, error)]
    # The main problem is a YAML number, else an unknown key, else the most deeply nested problem
    problem = max(
        (one for one in problems if one.keys[:2] == problems[0].keys[:2]),
        key=lambda one: (isinstance(one.value, YamlNumber), one.is_unknown_key, len(one.keys)),
    )
    location = find_key_location(problem.keys, tree)
    message, hint = problem.message, problem.hint
    if problem.is_unknown_key:
        message, hint = _describe_unknown_key(problem.keys, location)
    others = sorted(
        f"{'.'.join(map(str, one.keys))} ({find_key_location(one.keys, tree)})"
        for one in problems
        if one.keys != problem.keys
    )
    if others:
        named_others = f"other wrong settings: {format_short_list(others, _MAX_OTHER_PROBLEMS)}"
        hint = "; ".join(filter(None, (hint, named_others)))
    message = f"{'.'.join(map(str, problem.keys))}: {message}"
    return SettingsError(message, location=location, hint=hint)


def find_problems(value: Any, annotation: Any, path: KeyPath = ()) -> Iterator[Problem]:
    """Yield each problem of a value and of nested values. `annotation` is the expected type."""
    variants = _list_variants(annotation)
    section = next((variant for variant in variants if _is_section(variant)), None)
    if section and isinstance(value, Mapping):
        yield from _find_section_problems(value, section, path)
        return
    for variant in variants:
        match get_origin(variant), value:
            case origin, list() | tuple() if origin is tuple and value:
                for index, item in enumerate(value):
                    yield from find_problems(item, get_args(variant)[0], (*path, index))
                return
            case origin, Mapping() if origin is dict:
                key_type, value_type = get_args(variant)
                for key, item in value.items():
                    yield from find_problems(key, key_type, (*path, key))
                    yield from find_problems(item, value_type, (*path, key))
                return
    accepts_none = type(None) in get_args(annotation)
    if not (value is None and accepts_none) and not any(_is_valid(value, v) for v in variants):
        yield Problem(path, value, *_describe_wrong_value(value, variants))


def _is_valid(value: Any, variant: Any) -> bool:
    with suppress(ValidationError):
        convert(value, variant, strict=False)
        return True
    return False


def _find_section_problems(
    values: Mapping[str, Any], section: type[StrictModel], path: KeyPath
) -> Iterator[Problem]:
    types = get_type_hints(section, include_extras=True)
    fields = dict(list_fields(section))
    problems: list[Problem] = []
    for key, default in fields.items():
        if key in values:
            problems += find_problems(values[key], types[key], (*path, key))
        elif default is NODEFAULT:
            problems.append(Problem((*path, key), None, "this key is missing", "add it"))
    for key in (key for key in values if key not in fields):
        problems.append(Problem((*path, key), values[key], "unknown key", is_unknown_key=True))
    yield from problems
    if not problems:
        try:
            convert(values, section, strict=False)
        except ValidationError as error:
            keys = error.__cause__.keys if isinstance(error.__cause__, InvalidKeyError) else ()
            yield Problem((*path, *keys), None, str(error.__cause__ or error))


def _list_variants(annotation: Any) -> list[Any]:
    # The members of a union in their order, without None, or the annotation itself
    if get_origin(annotation) in {Literal, Annotated, tuple, dict, None}:
        return [annotation]
    return [variant for variant in get_args(annotation) if variant is not type(None)]


def _is_section(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, StrictModel)


def _describe_wrong_value(value: Any, variants: Sequence[Any]) -> tuple[str, str]:
    expected = f"write {' or '.join(dict.fromkeys(map(_describe_type, variants)))}"
    shown = _format_yaml_value(value)
    if value is None:
        return "this key has no value", f"{expected}, or leave the key out"
    if isinstance(value, str):
        if value in _REMOVED_VALUES:
            return _REMOVED_VALUES[value], ""
        constraints = [part for variant in variants for part in get_args(variant)]
        patterns = (part.pattern for part in constraints if isinstance(part, Meta))
        if pattern := next(filter(None, patterns), None):
            return f"{shown} does not have the right form", PATTERN_HINTS.get(pattern, "")
    accepts_text = any(_describe_type(variant) == "a text" for variant in variants)
    if accepts_text and isinstance(value, YamlNumber | bool | int) and len(variants) == 1:
        kind = "a number in YAML" if isinstance(value, YamlNumber) else "not a text"
        return f"{shown} is {kind}", f'quote it: "{shown}"'
    return f"{shown} is not accepted", expected


def _describe_type(annotation: Any) -> str:
    """Return what a value of the type `annotation` looks like in YAML."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) is Literal:
        *words, last = get_args(annotation)
        return f"{', '.join(words)} or {last}" if words else str(last)
    names = {str: "a text", bool: "true or false", int: "a whole number from 1"}
    lists = 'a list: ["…"]' if get_origin(annotation) is tuple else "keys and values"
    return names.get(annotation, lists)


def _format_yaml_value(value: Any) -> str:
    match value:
        case YamlNumber():
            return value.text
        case str():
            return f'"{value}"'
        case Mapping():
            return "a mapping"
        case list() | tuple():
            return "a list"
    return str(value).lower()


def _describe_unknown_key(path: KeyPath, where: str) -> tuple[str, str]:
    is_variable = len(path) == 1 and where.upper().startswith(ENV_PREFIX)
    if is_variable and (nearest := find_nearest_variable(where)):
        return "unknown key", f"did you mean {nearest}?"
    section: Any = Settings
    for key in path[:-1]:
        if isinstance(key, str):
            section = _find_section(get_type_hints(section, include_extras=True)[key])
    known_keys = sorted(key for key, _ in list_fields(section))
    current_name = _RENAMED_KEYS.get(path, str(path[-1]))
    suggestion = format_did_you_mean(current_name, known_keys)
    return f"unknown key{suggestion}", f"the keys of this section are: {', '.join(known_keys)}"


def _find_section(annotation: Any) -> Any:
    """Return the section class in the type annotation of a key, `None` if the type has none."""
    if _is_section(annotation):
        return annotation
    return next(filter(None, map(_find_section, get_args(annotation))), None)


ENV_PREFIX = "TORCHYARD__"
PROFILE_VARIABLE = "TORCHYARD_PROFILE"
# The child processes of torchyard, which can include another doit, read the other variables
_READ_VARIABLES = frozenset(
    f"TORCHYARD_{name}"
    for name in (
        "PROFILE",
        "RUN",
        "DISTRIBUTE",
        "OUTCOME",
        "SECONDS",
        "MESSAGE",
        "CACHE_DIR",
        "CONFIG_DIR",
    )
)
_TEST_PREFIXES = ("TORCHYARD_TEST_", "TORCHYARD_BENCHMARK_")


def describe_unused_variables(names: Iterable[str]) -> Iterator[str]:
    """Yield a sentence for each TORCHYARD_ variable that nothing reads."""
    for name in sorted(set(names) - _READ_VARIABLES):
        if name.startswith("TORCHYARD_") and not name.startswith((ENV_PREFIX, *_TEST_PREFIXES)):
            nearest = find_nearest_variable(name)
            suggestion = f"; did you mean {nearest}?" if nearest else ""
            yield f"the variable {name} is set, but torchyard does not read it{suggestion}"


def find_nearest_variable(name: str) -> str:
    """Return the known variable that is most similar to `name`, "" if none is similar."""
    variables = [PROFILE_VARIABLE]
    for section, default in list_fields(Settings):
        keys = dict(list_fields(type(default))) if isinstance(default, Section) else ("",)
        variables += [f"{ENV_PREFIX}{section}__{key}".rstrip("_").upper() for key in keys]
    suffix = name[len("TORCHYARD") :].lstrip("_")
    if ENV_PREFIX + "__".join(suffix.split("__")[:2]).upper() in variables:
        return ENV_PREFIX + suffix  # a mapping such as build.env accepts any name
    matches = [variable for variable in variables if variable.endswith(f"__{suffix.upper()}")]
    if len(matches) == 1:
        return matches[0]
    by_normalized_name = {_normalize_variable_name(variable): variable for variable in variables}
    nearest = find_nearest_word(_normalize_variable_name(name), by_normalized_name)
    return by_normalized_name[nearest] if nearest else ""


def _normalize_variable_name(name: str) -> str:
    return re.sub(r"_+", "_", name.lower().removeprefix("torchyard")).strip("_")


def find_key_location(path: KeyPath, tree: Tree) -> str:
    """Return where the value at `path` is set; if it is not set, where its section is set."""
    node: Leaf | Tree = tree
    for depth, part in enumerate(path):
        if isinstance(node, Leaf):
            keys, lines = path[depth:], node.lines
            locations = (lines.get(keys[:length]) for length in range(len(keys), 0, -1))
            return next(filter(None, locations), node.location)
        if part not in node:
            break
        node = node[part]
    while isinstance(node, dict) and node:
        node = next(iter(node.values()))
    return node.location if isinstance(node, Leaf) else "config"
