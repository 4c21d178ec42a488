"""How a person names a profile on the command line."""

from __future__ import annotations

import os
import re

_STAGES = "deps|source|env|compile|wheel|install|extensions|validate"
# As they stand in what a person is told to do, alone or in a sentence
_OURS = re.compile(
    rf"\bdoit (?>(?:clean(?: (?:{_STAGES})\b)?|{_STAGES}|build|doctor|settings|explain|diagnose"
    r"|history|report|purge|restore|publish|lock|bundle)\b(?: --[a-z]+)*)(?! profile=)"
)


def usual() -> str:
    """The profile that a plain `doit` takes."""
    return os.environ.get("TORCHYARD_PROFILE", "quickstart")


def with_profile(name: str) -> str:
    """` profile=NAME`, to go after a command; "" for the one that it takes anyway."""
    return "" if name == usual() else f" profile={name}"


def for_profile(todo: str, name: str) -> str:
    """What there is to do, with each of our own commands in it for this profile."""
    return _OURS.sub(lambda found: found[0] + with_profile(name), todo)
