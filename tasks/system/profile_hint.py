"""Add `profile=NAME` to the commands in messages and hints."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator

from tasks.core.errors import TorchyardError
from tasks.core.model import STAGE_VERBS

_STAGE_NAMES = rf"(?:{'|'.join(STAGE_VERBS)})(?::[\w-]+(?:\.[\w-]+)*)?"
# As they stand in what a person is told to do, alone or in a sentence
_DOIT_COMMAND = re.compile(
    rf"\bdoit (?>(?:clean(?: (?:{_STAGE_NAMES})\b)?|{_STAGE_NAMES}|build|doctor|settings"
    r"|explain|diagnose"
    r"|history|report|verify|purge|restore|publish|lock|bundle|matrix|init)\b"
    r"(?: --[a-z]+(?: [A-Z]+\b)?)*)"
    r"(?! profile=)"
)


def read_default_profile() -> str:
    """The profile that a plain `doit` takes."""
    return os.environ.get("TORCHYARD_PROFILE", "quickstart")


def format_profile_argument(name: str) -> str:
    """` profile=NAME`, to go after a command; "" for the one that it takes anyway."""
    return "" if name == read_default_profile() else f" profile={name}"


def add_profile_argument(todo: str, name: str) -> str:
    """What there is to do, with each of our own commands in it for this profile."""
    return _DOIT_COMMAND.sub(lambda found: found[0] + format_profile_argument(name), todo)


@contextlib.contextmanager
def add_profile_to_errors(profile: str) -> Iterator[None]:
    """Whatever goes wrong meanwhile, what there is to do is told for this profile."""
    try:
        yield
    except TorchyardError as error:
        error.hint = add_profile_argument(error.hint, profile)
        raise
