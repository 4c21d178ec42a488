"""Keep the loaded settings with their origins, look up single values, and mask secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tasks.core.canonical_json import mask_secrets
from tasks.core.errors import TorchyardError, is_secret_name, redact_secrets
from tasks.core.project import CHECKOUT_LOCAL_FILE, PROJECT_FILE
from tasks.settings.schema import Settings
from tasks.settings.values import dump_value

# "torch.version", "extensions.1 (mine).path" or "extensions (mine).after"
_SETTING_KEY = re.compile(
    r"(?P<list>\w+)(?P<index>\.\d+)?(?: \((?P<name>[^)]*)\))?(?P<below>(?:\.\w+)*)"
)
# Settings to report if the error's section has only default values
_RELATED_KEYS = {
    "toolkit": ("target.gpus", "torch.version", "torch.strategy"),
    "torch": ("target.gpus", "toolkit.version", "python"),
    "target": ("torch.version", "toolkit.version"),
    "python": ("torch.strategy", "torch.version"),
}


@contextmanager
def add_setting_location(loaded: LoadedSettings) -> Iterator[None]:
    """Add the file and line of the wrong setting to each error in the `with` block."""
    try:
        yield
    except TorchyardError as error:
        key, location = _find_setting_location(error, loaded)
        if location:
            error.location = f"{location}: {key}"
        raise


def _find_setting_location(error: TorchyardError, loaded: LoadedSettings) -> tuple[str, str]:
    """Return the key that caused the error and where it is set, ("", "") if unknown."""
    match = _SETTING_KEY.fullmatch(error.location)
    if match is None or match["list"] not in Settings.__struct_fields__:
        return "", ""
    section, subkeys = match["list"], match["below"]
    value: Any = getattr(loaded.settings, section)
    index = match["index"] or (_find_item_index(value, match["name"]) if match["name"] else "")
    if not index:
        for part in subkeys.split(".")[1:]:
            value = getattr(value, part, None)
        subkeys += _find_item_index(value, error.message)
    places = loaded.places.items()
    locations = {key: place for key, place in places if not place.startswith(DEFAULTS_PREFIX)}
    parts = f"{section}{index}{subkeys}".split(".")
    parents = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    for key in (*parents, *(key for key in locations if key.startswith(f"{section}."))):
        if key in locations:
            return error.location, locations[key]
    related = (key for key in _RELATED_KEYS.get(section, ()) if key in locations)
    return next(((key, locations[key]) for key in related), ("", ""))


def _find_item_index(value: Any, text: str) -> str:
    """Return the index, such as `.1`, of the first item of `value` in `text`, "" if none."""
    candidates = []
    for index, item in enumerate(value if isinstance(value, tuple) else ()):
        name = re.escape(str(getattr(item, "name", item)))
        if match := re.search(rf"(?<![\w.-]){name}(?![\w-])", text):
            candidates.append((match.start(), f".{index}"))
    return min(candidates, default=(0, ""))[1]


_KEY_ASSIGNMENT = re.compile(r"""(\w+)["']?[ ]*[:=][ ]*""")


def list_nondefault_settings(loaded: LoadedSettings) -> dict[str, Any]:
    """Return every setting that does not come from config/default.yaml, by dotted key."""
    return {
        key: find_setting_value(loaded.settings, key)
        for key, location in loaded.origin.items()
        if not location.startswith(DEFAULTS_PREFIX)
    }


def find_setting_value(settings: Settings, key: str) -> Any:
    """Return the value of a dotted key, with secrets masked."""
    value: Any = settings
    rest = key
    while rest and not isinstance(value, dict):
        part, _, rest = rest.partition(".")
        value = getattr(value, part)
    # The keys inside a mapping (source.mirrors) can contain dots themselves
    return mask_secrets(dump_value(value[rest] if rest else value), key)


def mask_settings_text(text: str) -> list[str]:
    """Return the lines of a settings file, which may be invalid YAML, with secret values masked."""
    lines, depth = [], -1
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip(" "))
        if depth >= 0 and (not line.strip() or indent > depth or line[indent:].startswith("- ")):
            lines.append(f"{line[:indent]}***" if line.strip() else line)
            continue
        keys = _KEY_ASSIGNMENT.finditer(line)
        secret = next((key for key in keys if is_secret_name(key[1])), None)
        depth = indent if secret else -1
        lines.append(redact_secrets(f"{line[: secret.end()]}***" if secret else line))
    return lines


# The start of each location of a value in these files
DEFAULTS_PREFIX = "config/default.yaml:"
LOCAL_PREFIXES = tuple(f"{name}:" for name in (CHECKOUT_LOCAL_FILE, PROJECT_FILE))


@dataclass(frozen=True)
class LoadedSettings:
    """The settings of a profile. `origin` says where each value is set, by dotted key.

    `places` also has the locations of values inside lists, such as `extensions.0.path`.
    """

    profile: str
    settings: Settings
    origin: Mapping[str, str]
    places: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
