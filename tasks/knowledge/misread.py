"""What is wrong in a file of facts that a person edited: the entry and the key, found when reading
failed.

It knows no schema: the file is read again with one entry at a time, and the key that was asked for
last is the one that failed. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from tasks.core.errors import KnowledgeError

Path = tuple[str, ...]
_Kind = tuple[str, Callable[[Any], bool]]  # in words, and whether a value is of it

WRONG = (KeyError, TypeError, ValueError, AttributeError, KnowledgeError)


def explained(read: Callable[[Mapping[str, Any]], Any], data: Mapping[str, Any]) -> tuple[str, str]:
    """The dotted key at which `read` of `data` failed, "" where it cannot be told, and what is
    wrong there.
    """
    for entry, alone in _one_by_one(data):
        asked: list[Path] = [()]
        try:
            read(_watched(alone, (), asked))
        except WRONG as error:
            last = asked[-1]
            return ".".join(last if last[: len(entry)] == entry else entry), _what(error)
    return "", "cannot be read"


def ill_typed(facts: Any) -> Iterator[tuple[str, str]]:
    """Each field of these facts whose value is of another type than it is declared with: the fact's
    first field and the field's name, dotted, and what it must be.
    """
    for fact in _each(facts):
        for name, kind in _declared(fact.__class__):
            value = getattr(fact, name)
            if kind is None:
                if isinstance(value, tuple) and value and is_dataclass(value[0]):
                    yield from ((f"{_name(fact)}.{key}", what) for key, what in ill_typed(value))
            elif not kind[1](value):
                yield f"{_name(fact)}.{name}", f"{value!r} is not {kind[0]}"


@cache
def _declared(kind: type) -> tuple[tuple[str, _Kind | None], ...]:
    return tuple((field.name, _KINDS.get(str(field.type))) for field in fields(kind))


def _each(facts: Any) -> Iterable[Any]:
    if is_dataclass(facts):
        return (facts,)
    return facts.values() if isinstance(facts, Mapping) else tuple(facts)


def _name(fact: Any) -> str:
    first = getattr(fact, fields(fact)[0].name)
    return first if isinstance(first, str) else ", ".join(map(str, first))


def _is(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kind) and not (kind is int and isinstance(value, bool))


def _all(kind: type) -> Callable[[Any], bool]:
    one = _is(kind)
    return lambda values: all(map(one, values))


_KINDS: dict[str, _Kind] = {
    "str": ("text (quote it)", _is(str)),
    "int": ("a whole number", _is(int)),
    "bool": ("true or false", _is(bool)),
    "tuple[str, ...]": ("a list of texts (quote them)", _all(str)),
    "tuple[str, str]": ("two texts (quote them)", _all(str)),
    "tuple[int, int]": ("two whole numbers", _all(int)),
}


def _what(error: Exception) -> str:
    match error:
        case KnowledgeError():
            return error.what
        case KeyError():
            return "is missing"
        case _:
            return f"is of the wrong kind ({error})"


def _one_by_one(data: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The file without entries, then with each of them alone."""
    empty = {key: type(part)() if _holds(part) else part for key, part in data.items()}
    yield (), empty
    for key, part in data.items():
        if isinstance(part, dict):
            yield from (((key, str(n)), {**empty, key: {n: row}}) for n, row in part.items())
        elif isinstance(part, list):
            for place, row in enumerate(part):
                yield (key, _label(row, place)), {**empty, key: [row]}


def _holds(part: Any) -> bool:
    return isinstance(part, (dict, list))


def _label(row: Any, place: int) -> str:
    return str(row["id"]) if isinstance(row, dict) and "id" in row else str(place + 1)


def _watched(value: Any, path: Path, asked: list[Path]) -> Any:
    if isinstance(value, dict):
        return _Watched(
            {key: _watched(part, (*path, str(key)), asked) for key, part in value.items()},
            path,
            asked,
        )
    if isinstance(value, list):
        return [
            _watched(part, (*path, _label(part, place)), asked) for place, part in enumerate(value)
        ]
    return value


class _Watched(dict[str, Any]):
    """A mapping that notes each key that it is asked for."""

    def __init__(self, content: dict[str, Any], path: Path, asked: list[Path]) -> None:
        super().__init__(content)
        self._path, self._asked = path, asked

    def __getitem__(self, key: str) -> Any:
        self._asked.append((*self._path, key))
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self._asked.append((*self._path, key))
        return super().get(key, default)
