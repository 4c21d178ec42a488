"""Public mirrors by name, and the replacement of URLs with mirrors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from tasks.core.errors import SettingsError
from tasks.core.text_formatting import format_did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tasks.knowledge.knowledge_files import Knowledge


class MirrorFact(Struct, frozen=True, kw_only=True):
    """A mirror, operated by `who`; `instead` maps URL prefixes to their replacements."""

    name: str
    who: str
    instead: Mapping[str, str]
    status: str
    note: str


def collect_mirror_replacements(names: Iterable[str], knowledge: Knowledge) -> dict[str, str]:
    """Return the mirror URL for each URL prefix that the mirrors `names` replace; earlier ones win.

    Raises `SettingsError` for an unknown mirror name.
    """
    replacements: dict[str, str] = {}
    for name in names:
        if name not in knowledge.mirrors:
            suggestion = format_did_you_mean(name, knowledge.mirrors)
            hint = f"choose from {', '.join(knowledge.mirrors)} (docs/knowledge.md); "
            hint += "or set your own in source.mirrors: {prefix: replacement}"
            message = f'the mirror "{name}" is not known{suggestion}'
            raise SettingsError(message, location="mirrors", hint=hint)
        replacements = {**knowledge.mirrors[name].instead, **replacements}
    return replacements


DEFAULT_INDEX = "https://pypi.org/simple"  # of uv and pip


def apply_mirror(url: str, mirrors: Mapping[str, str]) -> str:
    """Replace the longest prefix of `url` that is in `mirrors`, as git does with insteadOf."""
    longest = max(filter(url.startswith, mirrors), key=len, default="")
    return mirrors[longest] + url.removeprefix(longest) if longest else url


def apply_index_mirror(index: str, mirrors: Mapping[str, str]) -> str:
    """Apply the mirrors to an index URL, whether or not a prefix ends with a slash."""
    mirrored = apply_mirror(f"{index}/", mirrors)
    return index if mirrored == f"{index}/" else mirrored.rstrip("/")
