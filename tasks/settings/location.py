"""Find the file and line, or the environment variable, of the setting that an error is about."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tasks.core.errors import BuildError
from tasks.settings.load import DEFAULTS, Loaded
from tasks.settings.schema import Settings

# "torch.version", "extensions.1 (mine).path" or "extensions (mine).after"
_KEY = re.compile(r"(?P<list>\w+)(?P<index>\.\d+)?(?: \((?P<name>[^)]*)\))?(?P<below>(?:\.\w+)*)")
# Settings that cause such an error if the section itself has only defaults
_RELATED = {
    "toolkit": ("target.gpus", "torch.version", "torch.strategy"),
    "torch": ("target.gpus", "toolkit.version", "python"),
    "target": ("torch.version", "toolkit.version"),
    "python": ("torch.strategy", "torch.version"),
}


@contextmanager
def located(loaded: Loaded) -> Iterator[None]:
    """Add to an error that names a setting where it was set, as errors while loading have it."""
    try:
        yield
    except BuildError as error:
        key, place = _find(error, loaded)
        if place:
            error.where = f"{place}: {key}"
        raise


def _find(error: BuildError, loaded: Loaded) -> tuple[str, str]:
    """Return the key, and `config/local.yaml:12` or a variable's name; "" for both if only defaults
    are involved or the error names no setting.
    """
    found = _KEY.fullmatch(error.where)
    if found is None or found["list"] not in Settings.model_fields:
        return "", ""
    section, below = found["list"], found["below"]
    value: Any = getattr(loaded.settings, section)
    index = found["index"] or (_item(value, found["name"]) if found["name"] else "")
    if not index:
        for part in below.split(".")[1:]:
            value = getattr(value, part, None)
        below += _item(value, error.what)
    given = {one: at for one, at in loaded.places.items() if not at.startswith(DEFAULTS)}
    beside = (key for key in given if key.startswith(f"{section}."))
    for key in (*_around(f"{section}{index}{below}"), *beside):
        if key in given:
            return error.where, given[key]
    related = (key for key in _RELATED.get(section, ()) if key in given)
    return next(((key, given[key]) for key in related), ("", ""))


def _item(value: Any, text: str) -> str:
    """Return `.1` for the list item that `text` names first, "" if it names none."""
    found = []
    for index, one in enumerate(value if isinstance(value, tuple) else ()):
        name = re.escape(str(getattr(one, "name", one)))
        if named := re.search(rf"(?<![\w.-]){name}(?![\w-])", text):
            found.append((named.start(), f".{index}"))
    return min(found, default=(0, ""))[1]


def _around(key: str) -> Iterator[str]:
    """Yield the key and its parent keys, the innermost first."""
    while key:
        yield key
        key = key.rpartition(".")[0]
