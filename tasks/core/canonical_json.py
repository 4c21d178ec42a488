"""Convert values to canonical JSON, hash them, and find the differences between two values."""

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any, Final

from tasks.core.errors import is_secret_name, redact_secrets
from tasks.core.model import Json

ABSENT: Final = object()  # the value of a missing key


@dataclasses.dataclass(frozen=True)
class ValueChange:
    """A value that changed. `path` has the keys that lead to the value; ABSENT means no value."""

    path: tuple[str, ...]
    before: Any
    after: Any


def convert_to_json(value: Any) -> Json:
    """Convert a dataclass, collection or path to JSON. Raises `TypeError` for other objects."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case PurePath():
            return str(value)
        case Mapping():
            return {str(key): convert_to_json(item) for key, item in value.items()}
        case list() | tuple():
            return [convert_to_json(item) for item in value]
        case set() | frozenset():
            return [convert_to_json(item) for item in sorted(value)]
    if dataclasses.is_dataclass(value):
        return {f.name: convert_to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    raise TypeError(f"{type(value).__name__} cannot be converted to JSON")


def convert_to_redacted_json(value: Any) -> Json:
    """Convert a value to JSON without credentials."""
    text = json.dumps(convert_to_json(value), ensure_ascii=False)
    redacted: Json = json.loads(redact_secrets(text))
    return redacted


def mask_secrets(value: Json, name: str = "") -> Json:
    """Mask credentials, and values with keys such as `password`; `name` is the key of `value`."""
    if is_secret_name(name.rpartition(".")[2]):
        return "***"
    match value:
        case dict():
            return {key: mask_secrets(item, key) for key, item in value.items()}
        case list():
            return [mask_secrets(item, name) for item in value]
        case str():
            return redact_secrets(value)
    return value


def format_canonical_json(value: Any) -> str:
    """Return the canonical text of a value: sorted keys, two spaces, a final newline."""
    return json.dumps(convert_to_json(value), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def compute_text_sha256(text: str) -> str:
    """Return the hexadecimal sha256 of `text` in UTF-8."""
    return hashlib.sha256(text.encode()).hexdigest()


def find_changes(before: Any, after: Any, path: tuple[str, ...] = ()) -> Iterator[ValueChange]:
    """Yield each changed value, also in nested mappings; `path` leads to `before` and `after`."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in sorted({*before, *after}):
            old, new = before.get(name, ABSENT), after.get(name, ABSENT)
            yield from find_changes(old, new, (*path, str(name)))
    elif before != after:
        yield ValueChange(path or ("",), before, after)
