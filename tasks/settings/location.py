"""Find the file and line, or the environment variable, of the setting that an error is about."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tasks.core.errors import TorchyardError
from tasks.settings.load import DEFAULTS_PREFIX, LoadedSettings
from tasks.settings.schema import Settings

# "torch.version", "extensions.1 (mine).path" or "extensions (mine).after"
_SETTING_KEY = re.compile(
    r"(?P<list>\w+)(?P<index>\.\d+)?(?: \((?P<name>[^)]*)\))?(?P<below>(?:\.\w+)*)"
)
# Settings that cause such an error if the section itself has only defaults
_RELATED_KEYS = {
    "toolkit": ("target.gpus", "torch.version", "torch.strategy"),
    "torch": ("target.gpus", "toolkit.version", "python"),
    "target": ("torch.version", "toolkit.version"),
    "python": ("torch.strategy", "torch.version"),
}


@contextmanager
def add_setting_location(loaded: LoadedSettings) -> Iterator[None]:
    """Add to an error that names a setting where it was set, as errors while loading have it."""
    try:
        yield
    except TorchyardError as error:
        key, place = _find_setting_location(error, loaded)
        if place:
            error.location = f"{place}: {key}"
        raise


def _find_setting_location(error: TorchyardError, loaded: LoadedSettings) -> tuple[str, str]:
    """Return the key, and `config/local.yaml:12` or a variable's name; "" for both if only defaults
    are involved or the error names no setting.
    """
    found = _SETTING_KEY.fullmatch(error.location)
    if found is None or found["list"] not in Settings.model_fields:
        return "", ""
    section, below = found["list"], found["below"]
    value: Any = getattr(loaded.settings, section)
    index = found["index"] or (_find_item_index(value, found["name"]) if found["name"] else "")
    if not index:
        for part in below.split(".")[1:]:
            value = getattr(value, part, None)
        below += _find_item_index(value, error.message)
    given = {one: at for one, at in loaded.places.items() if not at.startswith(DEFAULTS_PREFIX)}
    beside = (key for key in given if key.startswith(f"{section}."))
    for key in (*_list_parent_keys(f"{section}{index}{below}"), *beside):
        if key in given:
            return error.location, given[key]
    related = (key for key in _RELATED_KEYS.get(section, ()) if key in given)
    return next(((key, given[key]) for key in related), ("", ""))


def _find_item_index(value: Any, text: str) -> str:
    """Return `.1` for the list item that `text` names first, "" if it names none."""
    found = []
    for index, one in enumerate(value if isinstance(value, tuple) else ()):
        name = re.escape(str(getattr(one, "name", one)))
        if named := re.search(rf"(?<![\w.-]){name}(?![\w-])", text):
            found.append((named.start(), f".{index}"))
    return min(found, default=(0, ""))[1]


def _list_parent_keys(key: str) -> Iterator[str]:
    """Yield the key and its parent keys, the innermost first."""
    while key:
        yield key
        key = key.rpartition(".")[0]
