"""pydantic's errors as one sentence a person can act on: file and line, dotted key, what is wrong,
what to write.
"""

from __future__ import annotations

from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from tasks.errors import SettingsError
from tasks.settings.schema import Settings
from tasks.settings.suggest import did_you_mean
from tasks.settings.yamltree import Leaf, Number, Tree


def explain(error: ValidationError, tree: Tree) -> SettingsError:
    """The first problem as a `SettingsError`; how many more there are is said too."""
    problems = error.errors(include_url=False)
    problem = _most_telling(problems)
    path = tuple(part for part in problem["loc"] if not _is_variant(part))
    dotted = ".".join(str(part) for part in path)
    more = len({tuple(p["loc"][: len(path)]) for p in problems}) - 1
    what, todo = _sentence(problem, path, dotted)
    if more > 0:
        todo = f"{todo}; {more} more after this one" if todo else f"{more} more after this one"
    return SettingsError(what, where=_where(path, tree), todo=todo)


def _most_telling(problems: list[Any]) -> Any:
    """A value with several accepted forms fails each of them: the deepest complaint is about the
    one that was meant.
    """
    first = problems[0]["loc"]
    same = [p for p in problems if p["loc"][:2] == first[:2]]
    return max(same, key=_telling)


def _telling(problem: Any) -> tuple[bool, bool, int]:
    unknown_key = problem["type"] == "extra_forbidden"
    return isinstance(problem.get("input"), Number), unknown_key, len(problem["loc"])


def _is_variant(part: Any) -> bool:
    """pydantic names the member of a union in the path ("literal['auto']", "tuple[str, ...]")."""
    return isinstance(part, str) and (
        any(c in part for c in "[(") or part in {"str", "int", "bool"}
    )


def _sentence(problem: Any, path: tuple[Any, ...], dotted: str) -> tuple[str, str]:
    """What is wrong, and what to write."""
    value = problem.get("input")
    if isinstance(value, Number):
        return f"{dotted}: {value.text} is a number to YAML", f'quote it: "{value.text}"'
    told = problem["msg"][0].lower() + problem["msg"][1:]
    forms = {
        "string_type": (f"{value!r} is not a text", f'quote it: "{value}"'),
        "literal_error": (f"{value!r} is not accepted", f"write {_context(problem, 'expected')}"),
        "value_error": (f"{_context(problem, 'error')}", ""),
        "string_pattern_mismatch": (
            f"{value!r} does not have the right form",
            f"it must match {_context(problem, 'pattern')}",
        ),
        "extra_forbidden": _unknown_key(path),
    }
    what, todo = forms.get(problem["type"], (f"{value!r}: {told}", ""))
    return f"{dotted}: {what}", todo


def _context(problem: Any, name: str) -> Any:
    return problem.get("ctx", {}).get(name, "")


def _unknown_key(path: tuple[Any, ...]) -> tuple[str, str]:
    known = _known_keys(path[:-1])
    return f"unknown key{did_you_mean(str(path[-1]), known)}", f"known here: {', '.join(known)}"


def _known_keys(path: tuple[Any, ...]) -> list[str]:
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


def _where(path: tuple[Any, ...], tree: Tree) -> str:
    node: Leaf | Tree = tree
    for part in path:
        if isinstance(node, Leaf) or part not in node:
            break
        node = node[part]
    while isinstance(node, dict) and node:
        node = next(iter(node.values()))
    return node.where if isinstance(node, Leaf) else "config"
