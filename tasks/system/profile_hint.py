"""Add `profile=NAME` to the commands in messages and hints."""

import contextlib
import os
import re
from collections.abc import Iterator

from tasks.core.errors import TorchyardError
from tasks.core.model import STAGE_VERBS

_STAGE_NAMES = rf"(?:{'|'.join(STAGE_VERBS)})(?::[\w-]+(?:\.[\w-]+)*)?"
# A doit command in a hint, on a line of its own or in a sentence
_DOIT_COMMAND = re.compile(
    rf"\bdoit (?>(?:clean(?: (?:{_STAGE_NAMES})\b)?|{_STAGE_NAMES}|build|doctor|settings|explain"
    r"|diagnose|history|report|verify|purge|restore|publish|lock|bundle|matrix|init)\b"
    r"(?: --[a-z]+(?: [A-Z]+\b)?)*)(?! profile=)"
)


def read_default_profile() -> str:
    """Return the default profile: TORCHYARD_PROFILE, else "quickstart"."""
    return os.environ.get("TORCHYARD_PROFILE", "quickstart")


def format_profile_argument(name: str) -> str:
    """Return " profile=NAME" to append to a command; an empty string for the default profile."""
    return "" if name == read_default_profile() else f" profile={name}"


def add_profile_argument(todo: str, name: str) -> str:
    """Return the text `todo` with `profile=NAME` added to each doit command."""
    return _DOIT_COMMAND.sub(lambda found: found[0] + format_profile_argument(name), todo)


@contextlib.contextmanager
def add_profile_to_errors(profile: str) -> Iterator[None]:
    """Add the profile to the hint of every error that the block raises."""
    try:
        yield
    except TorchyardError as error:
        error.hint = add_profile_argument(error.hint, profile)
        raise
