"""What is wrong in a file of facts that a person edited: the entry and the key, found when reading
failed.

It knows no schema: the file is read again with one entry at a time, and the key that was asked for
last is the one that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from tasks.core.errors import KnowledgeError

KeyPath = tuple[str, ...]
_TypeCheck = tuple[str, Callable[[Any], bool]]  # in words, and whether a value is of it

READ_ERRORS = (KeyError, TypeError, ValueError, AttributeError, KnowledgeError)


def locate_read_error(
    read: Callable[[Mapping[str, Any]], Any], data: Mapping[str, Any]
) -> tuple[str, str]:
    """The dotted key at which `read` of `data` failed, "" where it cannot be told, and what is
    wrong there.
    """
    for entry, alone in _split_entries(data):
        asked: list[KeyPath] = [()]
        try:
            read(_record_accesses(alone, (), asked))
        except READ_ERRORS as error:
            last = asked[-1]
            return ".".join(last if last[: len(entry)] == entry else entry), _describe_error(error)
    return "", "cannot be read"


def find_type_errors(facts: Any) -> Iterator[tuple[str, str]]:
    """Each field of these facts whose value is of another type than it is declared with: the fact's
    first field and the field's name, dotted, and what it must be.
    """
    for fact in _list_facts(facts):
        for name, kind in _list_declared_types(fact.__class__):
            value = getattr(fact, name)
            if kind is None:
                if isinstance(value, tuple) and value and is_dataclass(value[0]):
                    yield from (
                        (f"{_format_fact_name(fact)}.{key}", what)
                        for key, what in find_type_errors(value)
                    )
            elif not kind[1](value):
                yield f"{_format_fact_name(fact)}.{name}", f"{value!r} is not {kind[0]}"


@cache
def _list_declared_types(kind: type) -> tuple[tuple[str, _TypeCheck | None], ...]:
    return tuple((field.name, _TYPE_CHECKS.get(str(field.type))) for field in fields(kind))


def _list_facts(facts: Any) -> Iterable[Any]:
    if is_dataclass(facts):
        return (facts,)
    return facts.values() if isinstance(facts, Mapping) else tuple(facts)


def _format_fact_name(fact: Any) -> str:
    first = getattr(fact, fields(fact)[0].name)
    return first if isinstance(first, str) else ", ".join(map(str, first))


def _build_type_check(kind: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kind) and not (kind is int and isinstance(value, bool))


def _build_sequence_check(kind: type) -> Callable[[Any], bool]:
    one = _build_type_check(kind)
    return lambda values: all(map(one, values))


_TYPE_CHECKS: dict[str, _TypeCheck] = {
    "str": ("text (quote it)", _build_type_check(str)),
    "int": ("a whole number", _build_type_check(int)),
    "bool": ("true or false", _build_type_check(bool)),
    "tuple[str, ...]": ("a list of texts (quote them)", _build_sequence_check(str)),
    "tuple[str, str]": ("two texts (quote them)", _build_sequence_check(str)),
    "tuple[int, int]": ("two whole numbers", _build_sequence_check(int)),
}


def _describe_error(error: Exception) -> str:
    match error:
        case KnowledgeError():
            return error.message
        case KeyError():
            return "is missing"
        case _:
            return f"is of the wrong kind ({error})"


def _split_entries(data: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Mapping[str, Any]]]:
    """The file without entries, then with each of them alone."""
    empty = {key: type(part)() if _is_container(part) else part for key, part in data.items()}
    yield (), empty
    for key, part in data.items():
        if isinstance(part, dict):
            yield from (((key, str(n)), {**empty, key: {n: row}}) for n, row in part.items())
        elif isinstance(part, list):
            for place, row in enumerate(part):
                yield (key, _format_entry_label(row, place)), {**empty, key: [row]}


def _is_container(part: Any) -> bool:
    return isinstance(part, (dict, list))


def _format_entry_label(row: Any, place: int) -> str:
    return str(row["id"]) if isinstance(row, dict) and "id" in row else str(place + 1)


def _record_accesses(value: Any, path: KeyPath, asked: list[KeyPath]) -> Any:
    if isinstance(value, dict):
        return _RecordingDict(
            {key: _record_accesses(part, (*path, str(key)), asked) for key, part in value.items()},
            path,
            asked,
        )
    if isinstance(value, list):
        return [
            _record_accesses(part, (*path, _format_entry_label(part, place)), asked)
            for place, part in enumerate(value)
        ]
    return value


class _RecordingDict(dict[str, Any]):
    """A mapping that notes each key that it is asked for."""

    def __init__(self, content: dict[str, Any], path: KeyPath, asked: list[KeyPath]) -> None:
        super().__init__(content)
        self._path, self._asked = path, asked

    def __getitem__(self, key: str) -> Any:
        self._asked.append((*self._path, key))
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self._asked.append((*self._path, key))
        return super().get(key, default)
