"""Settings and variables as another may see them: no secrets, and no folders of this machine."""

from __future__ import annotations

from collections.abc import Mapping

from tasks.core.errors import is_secret_name, redact_secrets
from tasks.core.model import Json


def redact_json(value: Json, folders: Mapping[str, str], name: str = "") -> Json:
    """`value` without what opens something; `folders` maps a path of this machine to the word that
    stands for it ("{source}"). `name` is the key that the value has.
    """
    if is_secret_name(name):
        return "***"
    match value:
        case dict():
            return {key: redact_json(item, folders, str(key)) for key, item in value.items()}
        case list():
            return [redact_json(item, folders) for item in value]
        case str():
            return _replace_folders(redact_secrets(value), folders)
    return value


def _replace_folders(text: str, folders: Mapping[str, str]) -> str:
    """The deepest folder first: one may lie in another."""
    for folder in sorted(filter(None, folders), key=len, reverse=True):
        text = text.replace(folder, folders[folder])
    return text
