"""How a person names a profile on the command line."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator

from tasks.core.errors import BuildError

_STAGES = r"deps|source|env|compile|wheel|install|extensions(?::[\w-]+(?:\.[\w-]+)*)?|validate"
# As they stand in what a person is told to do, alone or in a sentence
_OURS = re.compile(
    rf"\bdoit (?>(?:clean(?: (?:{_STAGES})\b)?|{_STAGES}|build|doctor|settings|explain|diagnose"
    r"|history|report|verify|purge|restore|publish|lock|bundle|matrix|init)\b"
    r"(?: --[a-z]+(?: [A-Z]+\b)?)*)"
    r"(?! profile=)"
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


@contextlib.contextmanager
def naming(profile: str) -> Iterator[None]:
    """Whatever goes wrong meanwhile, what there is to do is told for this profile."""
    try:
        yield
    except BuildError as error:
        error.todo = for_profile(error.todo, profile)
        raise
