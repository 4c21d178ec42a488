"""Settings and variables as another may see them: no secrets, and no folders of this machine."""

from __future__ import annotations

from collections.abc import Mapping

from tasks.core.errors import names_a_secret, redact
from tasks.core.model import Json


def shown(value: Json, folders: Mapping[str, str], name: str = "") -> Json:
    """`value` without what opens something; `folders` maps a path of this machine to the word that
    stands for it ("{source}"). `name` is the key that the value has.
    """
    if names_a_secret(name):
        return "***"
    match value:
        case dict():
            return {key: shown(item, folders, str(key)) for key, item in value.items()}
        case list():
            return [shown(item, folders) for item in value]
        case str():
            return _anywhere(redact(value), folders)
    return value


def _anywhere(text: str, folders: Mapping[str, str]) -> str:
    """The deepest folder first: one may lie in another."""
    for folder in sorted(filter(None, folders), key=len, reverse=True):
        text = text.replace(folder, folders[folder])
    return text
