"""Write the commands and paths in messages as the user types them.

All messages are written for a checkout: `doit build profile=NAME`, `config/local.yaml`. In a
project, the command is `torchyard build --profile NAME`, and the file is torchyard.yaml.
"""

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tasks.core.errors import TorchyardError
from tasks.core.model import STAGE_VERBS
from tasks.core.project import (
    BUILT_IN_PROFILE,
    CHECKOUT_LOCAL_FILE,
    OUTPUT_FOLDER,
    PROJECT_FILE,
    Project,
)

_STAGE_NAMES = rf"(?:{'|'.join(STAGE_VERBS)})(?::[\w-]+(?:\.[\w-]+)*)?"
_COMMAND_NAMES = "build|doctor|settings|explain|diagnose|history|report|verify|purge|restore"
_COMMAND_NAMES += "|publish|lock|bundle|matrix|init|cache"
# A doit command in a hint, on a line of its own or in a sentence
_DOIT_COMMAND = re.compile(
    rf"\bdoit (?>(?:clean(?: (?:{_STAGE_NAMES})\b)?|{_STAGE_NAMES}|{_COMMAND_NAMES})\b"
    r"(?: --[a-z]+(?: [A-Z]+\b)?)*)(?! profile=)"
)


@dataclass(frozen=True)
class _Invocation:
    """How the user started torchyard: as `doit`, or with the command `torchyard`."""

    is_doit: bool = True
    project: Project | None = None
    default_profile: str = BUILT_IN_PROFILE
    start_folder: str = ""


_current = [_Invocation()]


def set_invocation(project: Project, default_profile: str, start_folder: str = "") -> None:
    """Write all messages from now on for the command `torchyard` and this project.

    The user's relative paths start at `start_folder`.
    """
    _current[0] = _Invocation(False, project, default_profile, start_folder)


def read_project() -> Project | None:
    """Return the project of the command `torchyard`; `None` for doit."""
    return _current[0].project


def read_start_folder() -> str:
    """Return the folder that the user's relative paths start at; "" for doit."""
    return _current[0].start_folder


def read_default_profile() -> str:
    """Return the default profile: TORCHYARD_PROFILE, else that of the project."""
    return os.environ.get("TORCHYARD_PROFILE") or _current[0].default_profile


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


_OTHER_COMMANDS = "list|help|clean|info|forget|refresh|check|NAME|STAGE"
_TASK = rf"(?:{_STAGE_NAMES}|{_COMMAND_NAMES}|{_OTHER_COMMANDS})"
_DOIT = re.compile(rf"\bdoit(?= {_TASK}\b)")
_PROFILE_VALUE = re.compile(r"(?<![\w-])profile=(?=[\w.…@-])")
_DOC = re.compile(r"(?<![\w./-])docs/(?=[\w-]+\.md\b)")


def adapt_message(text: str) -> str:
    """Return a message with the commands and paths that the user can use."""
    if _current[0].is_doit:
        return text
    project = _current[0].project
    if project is None or project.is_checkout:
        return _format_commands(text)
    text = format_for_torchyard(text, _current[0].default_profile)
    return _DOC.sub(f"{project.code.as_posix()}/docs/", text)


def format_for_torchyard(text: str, default_profile: str = BUILT_IN_PROFILE) -> str:
    """Return a text for a checkout with the commands and paths of the command `torchyard`."""
    text = _format_commands(text).replace(CHECKOUT_LOCAL_FILE, PROJECT_FILE)
    profiles = "|".join(map(re.escape, ("PROFILE", "NAME", default_profile)))
    return re.sub(rf"(?<![\w./-])build/(?={profiles}\b)", f"{OUTPUT_FOLDER}/build/", text)


def _format_commands(text: str) -> str:
    text = _PROFILE_VALUE.sub("--profile ", _DOIT.sub("torchyard", text))
    return text.replace("doit tabcompletion", "torchyard completion")
