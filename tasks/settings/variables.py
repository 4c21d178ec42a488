"""Variables of the environment that look like ours: which one was meant, and which nothing reads.
Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tasks.core.suggest import find_nearest_word
from tasks.settings.schema import Settings
from tasks.settings.section import Section

ENV_PREFIX = "TORCHYARD__"
PROFILE_VARIABLE = "TORCHYARD_PROFILE"
# What programs find that torchyard starts, and a doit that one of them starts
_EXPORTED_VARIABLES = frozenset(
    f"TORCHYARD_{name}" for name in ("RUN", "DISTRIBUTE", "OUTCOME", "SECONDS", "MESSAGE")
)
_TEST_PREFIXES = ("TORCHYARD_TEST_", "TORCHYARD_BENCHMARK_")


def describe_unused_variables(names: Iterable[str]) -> Iterator[str]:
    """A sentence for each that a person set in vain."""
    for name in sorted(names):
        ours = name.startswith("TORCHYARD_") and not name.startswith((ENV_PREFIX, *_TEST_PREFIXES))
        if ours and name != PROFILE_VARIABLE and name not in _EXPORTED_VARIABLES:
            right = find_nearest_variable(name)
            near = f"; did you mean {right}?" if right else ""
            yield f"{name} is set, and nothing reads it{near}"


def find_nearest_variable(name: str) -> str:
    """The variable that is read and most like it, "" where none is."""
    read = (PROFILE_VARIABLE, *_list_setting_variables())
    rest = name[len("TORCHYARD") :].lstrip("_")
    if ENV_PREFIX + "__".join(rest.split("__")[:2]).upper() in read:
        return ENV_PREFIX + rest  # below a mapping, build.env, any name can stand
    alone = [one for one in read if one.endswith(f"__{rest.upper()}")]
    if len(alone) == 1:
        return alone[0]
    known = {_normalize_variable_name(one): one for one in read}
    near = find_nearest_word(_normalize_variable_name(name), known)
    return known[near] if near else ""


def _list_setting_variables() -> Iterator[str]:
    for name, field in Settings.model_fields.items():
        inside = isinstance(field.default, Section)
        keys = type(field.default).model_fields if inside else ("",)
        yield from (f"{ENV_PREFIX}{name}__{key}".rstrip("_").upper() for key in keys)


def _normalize_variable_name(name: str) -> str:
    """Without what all begin with, and however its words are joined."""
    return re.sub(r"_+", "_", name.lower().removeprefix("torchyard")).strip("_")
