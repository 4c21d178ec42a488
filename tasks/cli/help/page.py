"""The forms of what is told of a task."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CommandOption:
    """`--name VALUE` of a command, or `--name` alone where it is a flag (`value` is "")."""

    name: str
    meaning: str
    value: str = ""
    example: str = ""


@dataclass(frozen=True)
class CommandPage:
    """A task beside the stages: a line for the list, what it does beyond that, an example. `group`
    is where it stands in the list, `takes` what is named after it without an option.
    """

    name: str
    group: str
    doc: str
    more: str
    example: str
    options: tuple[CommandOption, ...] = ()
    takes: str = ""


@dataclass(frozen=True)
class StagePage:
    """A stage for who has not read the code: `settings` are dotted keys, or sections; `log` is what
    it leaves in build/PROFILE/logs, "" where that is nothing.
    """

    name: str
    doc: str
    does: str
    needs: str
    makes: str
    again: str
    settings: tuple[str, ...]
    log: str = ""
    alone: str = ""
