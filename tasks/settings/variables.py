"""Variables of the environment that look like ours: which one was meant, and which nothing reads.
Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tasks.core.suggest import nearest
from tasks.settings.schema import Settings
from tasks.settings.section import Section

ENV_PREFIX = "TORCHYARD__"
PROFILE = "TORCHYARD_PROFILE"
# What programs find that torchyard starts, and a doit that one of them starts
_GIVEN = frozenset(
    f"TORCHYARD_{name}" for name in ("RUN", "DISTRIBUTE", "OUTCOME", "SECONDS", "MESSAGE")
)
_OF_TESTS = ("TORCHYARD_TEST_", "TORCHYARD_BENCHMARK_")


def unread(names: Iterable[str]) -> Iterator[str]:
    """A sentence for each that a person set in vain."""
    for name in sorted(names):
        ours = name.startswith("TORCHYARD_") and not name.startswith((ENV_PREFIX, *_OF_TESTS))
        if ours and name != PROFILE and name not in _GIVEN:
            right = meant(name)
            near = f"; did you mean {right}?" if right else ""
            yield f"{name} is set, and nothing reads it{near}"


def meant(name: str) -> str:
    """The variable that is read and most like it, "" where none is."""
    read = (PROFILE, *_of_settings())
    rest = name[len("TORCHYARD") :].lstrip("_")
    if ENV_PREFIX + "__".join(rest.split("__")[:2]).upper() in read:
        return ENV_PREFIX + rest  # below a mapping, build.env, any name can stand
    alone = [one for one in read if one.endswith(f"__{rest.upper()}")]
    if len(alone) == 1:
        return alone[0]
    known = {_plain(one): one for one in read}
    near = nearest(_plain(name), known)
    return known[near] if near else ""


def _of_settings() -> Iterator[str]:
    for name, field in Settings.model_fields.items():
        inside = isinstance(field.default, Section)
        keys = type(field.default).model_fields if inside else ("",)
        yield from (f"{ENV_PREFIX}{name}__{key}".rstrip("_").upper() for key in keys)


def _plain(name: str) -> str:
    """Without what all begin with, and however its words are joined."""
    return re.sub(r"_+", "_", name.lower().removeprefix("torchyard")).strip("_")
