"""Canonical JSON, sha256 of it, and the difference of two input dicts. Pure.

Hash and explanation come from the same value, so they cannot disagree.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any, Final

from tasks.core.errors import names_a_secret, redact
from tasks.core.model import Json

ABSENT: Final = object()  # what stands for the value of a key that is not there


@dataclasses.dataclass(frozen=True)
class Change:
    """A value that is not what it was, and the keys that lead to it, at least one."""

    path: tuple[str, ...]
    before: Any
    after: Any


def plain(value: Any) -> Json:
    """Dataclasses, tuples, mappings and paths as JSON values; a type that JSON lacks is a
    TypeError.
    """
    match value:
        case None | bool() | int() | float() | str():
            return value
        case PurePath():
            return str(value)
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case set() | frozenset():
            return [plain(item) for item in sorted(value)]
    if dataclasses.is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    raise TypeError(f"{type(value).__name__} has no place in a manifest")


def shown(value: Any) -> Json:
    """The same without what opens a URL. A stage is compared by this and told by this: a new token
    for the same index is no reason to build again.
    """
    found: Json = json.loads(redact(json.dumps(plain(value), ensure_ascii=False)))
    return found


def masked(value: Json, name: str = "") -> Json:
    """The same without what opens a URL, and without the values of names that tell of a secret."""
    if names_a_secret(name):
        return "***"
    match value:
        case dict():
            return {key: masked(item, key) for key, item in value.items()}
        case list():
            return [masked(item, name) for item in value]
        case str():
            return redact(value)
    return value


def canonical(value: Any) -> str:
    """The one text of a value: sorted keys, two spaces, a final newline."""
    return json.dumps(plain(value), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def sha256_text(text: str) -> str:
    """Hexadecimal sha256 of `text` in UTF-8."""
    return hashlib.sha256(text.encode()).hexdigest()


def changes(before: Any, after: Any, path: tuple[str, ...] = ()) -> Iterator[Change]:
    """What differs, one of them a leaf."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in sorted({*before, *after}):
            old, new = before.get(name, ABSENT), after.get(name, ABSENT)
            yield from changes(old, new, (*path, str(name)))
    elif before != after:
        yield Change(path or ("",), before, after)
