"""In what two sections of one profile are not the same, for people. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tasks.core.errors import redact_secrets
from tasks.lock.section import LockSection

_SHORT_LENGTH = 12  # digits of a digest or commit that people compare


def compare_sections(held: LockSection, now: LockSection) -> Iterator[str]:
    """A line each: `extensions.toy.commit: 1a2b3c4d5e6f → 0f9e8d7c6b5a`. Of packages the version is
    told, and the digest only where the version is the same.
    """
    yield from _compare_values(held.model_dump(mode="json"), now.model_dump(mode="json"), "")


def _compare_values(before: Any, after: Any, key: str) -> Iterator[str]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        if key.rpartition(".")[2] in ("packages", "requires", "toolkit"):
            yield from _compare_packages(before, after, key)
            return
        for name in sorted({*before, *after}):
            dotted = f"{key}.{name}" if key else name
            if name not in after:
                yield f"{dotted}: locked, and not built"
            elif name not in before:
                yield f"{dotted}: built, and not locked"
            else:
                yield from _compare_values(before[name], after[name], dotted)
    elif before != after:
        yield f"{key}: {_shorten_value(before)} → {_shorten_value(after)}"


def _compare_packages(
    before: Mapping[str, Any], after: Mapping[str, Any], key: str
) -> Iterator[str]:
    old, new = _parse_versions(before), _parse_versions(after)
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            yield f"{key}.{name}: {old.get(name, 'not locked')} → {new.get(name, 'not there')}"
        elif not set(after[f"{name}=={new[name]}"]) <= set(before[f"{name}=={old[name]}"]):
            yield f"{key}.{name}: {old[name]} with other bytes than the locked ones"


def _parse_versions(packages: Mapping[str, Any]) -> dict[str, str]:
    return dict(pin.split("==", 1) for pin in packages)


def _shorten_value(value: Any) -> str:
    text = redact_secrets(str(value)) or "none"
    is_digest = len(text) >= 40 and all(c in "0123456789abcdef" for c in text)
    return text[:_SHORT_LENGTH] if is_digest else text
