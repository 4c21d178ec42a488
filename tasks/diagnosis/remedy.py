"""What to do about a failure, in the words of one host and profile where all of them are known."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tasks.knowledge.facts import Failure

_PLACEHOLDER = re.compile(r"\{([a-z][a-z_]*(?::[a-z-]+)?)\}")


def fill_remedy(failure: Failure, known: Mapping[str, str]) -> str:
    """The first of `failure.here` whose words are all known, with what they stand for here; else
    the one that holds everywhere.
    """
    for text in failure.here:
        if find_placeholders(text) <= known.keys():
            return _PLACEHOLDER.sub(lambda found: known[found[1]], text)
    return failure.remedy


def find_placeholders(text: str) -> set[str]:
    """The words of a remedy that a host has to fill: `jobs`, `install:compiler`."""
    return set(_PLACEHOLDER.findall(text))
