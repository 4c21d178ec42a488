"""pydantic's errors as one sentence a person can act on: file and line, dotted key, what is wrong,
what to write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from tasks.core.errors import SettingsError
from tasks.core.formatting.few import few
from tasks.core.suggest import did_you_mean
from tasks.settings.schema import Settings
from tasks.settings.sentences import Problem, sentence
from tasks.settings.variables import ENV_PREFIX, meant
from tasks.settings.yamltree import Leaf, Number, Tree

Keys = tuple[Any, ...]

_AT_MOST = 5  # that are named beside the first

# What a key was called before, which resembles its name of today too little to be guessed
_RENAMED: dict[Keys, str] = {("validation", "checks"): "only"}


def explain(error: ValidationError, tree: Tree) -> SettingsError:
    """The first problem as a `SettingsError`; where the others are is said too."""
    problems: Sequence[Problem] = error.errors(include_url=False)
    problem = _most_telling(problems)
    path = _path(problem)
    if problem["type"] == "extra_forbidden":
        what, todo = _unknown_key(path, where_of(path, tree))
    else:
        what, todo = sentence(problem, [p for p in problems if _path(p) == path])
    if others := [_placed(one, tree) for one in _wrong(problems) if one != path]:
        also = f"wrong as well: {few(sorted(others), _AT_MOST)}"
        todo = "; ".join(part for part in (todo, also) if part)
    return SettingsError(f"{_dotted(path)}: {what}", where=where_of(path, tree), todo=todo)


def _placed(path: Keys, tree: Tree) -> str:
    return f"{_dotted(path)} ({where_of(path, tree)})"


def _dotted(path: Keys) -> str:
    return ".".join(map(str, path))


def _most_telling(problems: Sequence[Problem]) -> Problem:
    """A value with several accepted forms fails each of them: the deepest complaint is about the
    one that was meant.
    """
    first = problems[0]["loc"]
    return max((p for p in problems if p["loc"][:2] == first[:2]), key=_telling)


def _telling(problem: Problem) -> tuple[bool, bool, int]:
    unknown_key = problem["type"] == "extra_forbidden"
    return isinstance(problem.get("input"), Number), unknown_key, len(_path(problem))


def _wrong(problems: Sequence[Problem]) -> set[Keys]:
    """The keys that have to be mended; a list is not one beside the item that spoils it."""
    paths = {_path(problem) for problem in problems}
    return {p for p in paths if not any(len(q) > len(p) and q[: len(p)] == p for q in paths)}


def _path(problem: Problem) -> Keys:
    within = getattr(problem.get("ctx", {}).get("error"), "keys", ())  # of a `KeyMistakeError`
    return (*(part for part in problem["loc"] if not _is_variant(part)), *within)


def _is_variant(part: Any) -> bool:
    """pydantic names the member of a union in the path ("literal['auto']", "tuple[str, ...]")."""
    return isinstance(part, str) and (
        any(c in part for c in "[(") or part in {"str", "int", "bool", "constrained-int"}
    )


def _unknown_key(path: Keys, where: str) -> tuple[str, str]:
    if len(path) == 1 and where.upper().startswith(ENV_PREFIX) and (right := meant(where)):
        return "unknown key", f"did you mean {right}?"
    known = _known_keys(path[:-1])
    today = _RENAMED.get(path, str(path[-1]))
    return f"unknown key{did_you_mean(today, known)}", f"known here: {', '.join(known)}"


def _known_keys(path: Keys) -> list[str]:
    model: type[BaseModel] = Settings
    for part in path:
        if isinstance(part, int):
            continue
        field = model.model_fields.get(part)
        model = _section(field.annotation) if field else model
    return sorted(model.model_fields)


def _section(annotation: Any) -> type[BaseModel]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(
        (_section(arg) for arg in get_args(annotation) if arg is not Ellipsis and _holds(arg)),
        Settings,
    )


def _holds(annotation: Any) -> bool:
    is_model = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    return is_model or any(_holds(arg) for arg in get_args(annotation))


def where_of(path: Keys, tree: Tree) -> str:
    """The line of the value, or of the nearest thing around it that has one."""
    node: Leaf | Tree = tree
    for depth, part in enumerate(path):
        if isinstance(node, Leaf):
            return _within(node, path[depth:])
        if part not in node:
            break
        node = node[part]
    while isinstance(node, dict) and node:
        node = next(iter(node.values()))
    return node.where if isinstance(node, Leaf) else "config"


def _within(leaf: Leaf, path: Keys) -> str:
    inner = (leaf.lines.get(path[:length]) for length in range(len(path), 0, -1))
    return next((where for where in inner if where), leaf.where)
