"""pydantic's errors as one sentence a person can act on: file and line, dotted key, what is wrong,
what to write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from tasks.core.errors import SettingsError
from tasks.core.formatting.few import format_short_list
from tasks.core.suggest import format_did_you_mean
from tasks.settings.schema import Settings
from tasks.settings.sentences import ValidationProblem, describe_problem
from tasks.settings.variables import ENV_PREFIX, find_nearest_variable
from tasks.settings.yamltree import Leaf, Tree, YamlNumber

KeyPath = tuple[Any, ...]

_MAX_OTHER_PROBLEMS = 5  # that are named beside the first

# What a key was called before, which resembles its name of today too little to be guessed
_RENAMED_KEYS: dict[KeyPath, str] = {("validation", "checks"): "only"}


def explain_validation_error(error: ValidationError, tree: Tree) -> SettingsError:
    """The first problem as a `SettingsError`; where the others are is said too."""
    problems: Sequence[ValidationProblem] = error.errors(include_url=False)
    problem = _select_main_problem(problems)
    path = _find_key_path(problem)
    if problem["type"] == "extra_forbidden":
        what, todo = _describe_unknown_key(path, find_key_location(path, tree))
    else:
        what, todo = describe_problem(problem, [p for p in problems if _find_key_path(p) == path])
    if others := [
        _format_key_location(one, tree) for one in _find_wrong_keys(problems) if one != path
    ]:
        also = f"wrong as well: {format_short_list(sorted(others), _MAX_OTHER_PROBLEMS)}"
        todo = "; ".join(part for part in (todo, also) if part)
    return SettingsError(
        f"{_join_key_path(path)}: {what}", location=find_key_location(path, tree), hint=todo
    )


def _format_key_location(path: KeyPath, tree: Tree) -> str:
    return f"{_join_key_path(path)} ({find_key_location(path, tree)})"


def _join_key_path(path: KeyPath) -> str:
    return ".".join(map(str, path))


def _select_main_problem(problems: Sequence[ValidationProblem]) -> ValidationProblem:
    """A value with several accepted forms fails each of them: the deepest complaint is about the
    one that was meant.
    """
    first = problems[0]["loc"]
    return max((p for p in problems if p["loc"][:2] == first[:2]), key=_rank_problem)


def _rank_problem(problem: ValidationProblem) -> tuple[bool, bool, int]:
    unknown_key = problem["type"] == "extra_forbidden"
    return isinstance(problem.get("input"), YamlNumber), unknown_key, len(_find_key_path(problem))


def _find_wrong_keys(problems: Sequence[ValidationProblem]) -> set[KeyPath]:
    """The keys that have to be mended; a list is not one beside the item that spoils it."""
    paths = {_find_key_path(problem) for problem in problems}
    return {p for p in paths if not any(len(q) > len(p) and q[: len(p)] == p for q in paths)}


def _find_key_path(problem: ValidationProblem) -> KeyPath:
    within = getattr(problem.get("ctx", {}).get("error"), "keys", ())  # of a `KeyMistakeError`
    return (*(part for part in problem["loc"] if not _is_union_variant(part)), *within)


def _is_union_variant(part: Any) -> bool:
    """pydantic names the member of a union in the path ("literal['auto']", "tuple[str, ...]")."""
    return isinstance(part, str) and (
        any(c in part for c in "[(") or part in {"str", "int", "bool", "constrained-int"}
    )


def _describe_unknown_key(path: KeyPath, where: str) -> tuple[str, str]:
    if (
        len(path) == 1
        and where.upper().startswith(ENV_PREFIX)
        and (right := find_nearest_variable(where))
    ):
        return "unknown key", f"did you mean {right}?"
    known = _list_known_keys(path[:-1])
    today = _RENAMED_KEYS.get(path, str(path[-1]))
    return f"unknown key{format_did_you_mean(today, known)}", f"known here: {', '.join(known)}"


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
    """The line of the value, or of the nearest thing around it that has one."""
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
    inner = (leaf.lines.get(path[:length]) for length in range(len(path), 0, -1))
    return next((where for where in inner if where), leaf.location)
