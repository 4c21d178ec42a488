"""Settings as they are told: by dotted key, and without secrets."""

from __future__ import annotations

import re
from typing import Any

from tasks.core.errors import names_a_secret, redact
from tasks.settings.load import DEFAULTS, Loaded
from tasks.settings.schema import Settings

_KEYS = re.compile(r"""(\w+)["']?[ ]*[:=][ ]*""")


def asked(loaded: Loaded) -> dict[str, Any]:
    """What a person, or a profile, set: every key that is not from config/default.yaml."""
    given = (key for key, where in loaded.origin.items() if not where.startswith(DEFAULTS))
    return {key: value_of(loaded.settings, key) for key in given}


def value_of(settings: Settings, key: str) -> Any:
    """The value of a dotted key."""
    return _value(key, _at(settings, key))


def _at(settings: Any, key: str) -> Any:
    """The keys of a mapping (mirrors) can hold dots themselves."""
    value = settings
    while key:
        if isinstance(value, dict):
            return value[key]
        part, _, key = key.partition(".")
        value = getattr(value, part)
    return value


def _value(key: str, value: Any) -> Any:
    if names_a_secret(key.rpartition(".")[2]):
        return "***"
    if hasattr(value, "model_dump"):
        value = value.model_dump(exclude_defaults=True)
    if isinstance(value, tuple):
        return [_value(key, item) for item in value]
    if isinstance(value, dict):
        return {name: _value(name, item) for name, item in value.items()}
    return redact(value) if isinstance(value, str) else value


def masked(text: str) -> list[str]:
    """The lines of a file of settings, whether it is YAML or not: what is after a key that is
    called like a secret is left out, to the end of the line and with the deeper lines below it.
    """
    found, depth = [], -1
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip(" "))
        if depth >= 0 and (not line.strip() or indent > depth or line[indent:].startswith("- ")):
            found.append(f"{line[:indent]}***" if line.strip() else line)
            continue
        secret = next((key for key in _KEYS.finditer(line) if names_a_secret(key[1])), None)
        depth = indent if secret else -1
        found.append(redact(f"{line[: secret.end()]}***" if secret else line))
    return found
