"""Settings as they are told: by dotted key, and without secrets."""

from __future__ import annotations

import re
from typing import Any

from tasks.core.errors import is_secret_name, redact_secrets
from tasks.settings.load import DEFAULTS_PREFIX, LoadedSettings
from tasks.settings.schema import Settings

_KEY_ASSIGNMENT = re.compile(r"""(\w+)["']?[ ]*[:=][ ]*""")


def list_nondefault_settings(loaded: LoadedSettings) -> dict[str, Any]:
    """What a person, or a profile, set: every key that is not from config/default.yaml."""
    given = (key for key, where in loaded.origin.items() if not where.startswith(DEFAULTS_PREFIX))
    return {key: find_setting_value(loaded.settings, key) for key in given}


def find_setting_value(settings: Settings, key: str) -> Any:
    """The value of a dotted key."""
    return _mask_value(key, _resolve_dotted_key(settings, key))


def _resolve_dotted_key(settings: Any, key: str) -> Any:
    """The keys of a mapping (mirrors) can hold dots themselves."""
    value = settings
    while key:
        if isinstance(value, dict):
            return value[key]
        part, _, key = key.partition(".")
        value = getattr(value, part)
    return value


def _mask_value(key: str, value: Any) -> Any:
    if is_secret_name(key.rpartition(".")[2]):
        return "***"
    if hasattr(value, "model_dump"):
        value = value.model_dump(exclude_defaults=True)
    if isinstance(value, tuple):
        return [_mask_value(key, item) for item in value]
    if isinstance(value, dict):
        return {name: _mask_value(name, item) for name, item in value.items()}
    return redact_secrets(value) if isinstance(value, str) else value


def mask_settings_text(text: str) -> list[str]:
    """The lines of a file of settings, whether it is YAML or not: what is after a key that is
    called like a secret is left out, to the end of the line and with the deeper lines below it.
    """
    found, depth = [], -1
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip(" "))
        if depth >= 0 and (not line.strip() or indent > depth or line[indent:].startswith("- ")):
            found.append(f"{line[:indent]}***" if line.strip() else line)
            continue
        secret = next(
            (key for key in _KEY_ASSIGNMENT.finditer(line) if is_secret_name(key[1])), None
        )
        depth = indent if secret else -1
        found.append(redact_secrets(f"{line[: secret.end()]}***" if secret else line))
    return found
