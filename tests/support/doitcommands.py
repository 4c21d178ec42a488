"""Every command and option that `doit` has in a checkout, and what a line of documentation uses."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doit.cmd_base import DodoTaskLoader
from doit.doit_cmd import DoitMain

from tasks.cli.session import generate_command_tasks
from tasks.core.project import Project
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.planning.profile_plan import STAGE_KINDS
from tests.support.snippets import ROOT

Options = dict[str, bool]  # by name: whether a value comes after it

_PLACEHOLDER = re.compile(r"[A-Z][A-Z|:]*|extensions:\S+|…")


def _own() -> Iterator[tuple[str, Options]]:
    """doit's own."""
    found = DoitMain().get_cmds()
    for name in found:
        options = found.get_plugin(name)(task_loader=DodoTaskLoader(), cmds=found).cmdparser.options
        yield name, {one.long: one.type is not bool for one in options if one.long}


def _ours() -> Iterator[tuple[str, Options]]:
    subject = SelectedProfile(Project.of_checkout(ROOT), "quickstart", None)
    for task in generate_command_tasks(subject):
        params = task["params"]
        yield task["basename"], {one["long"]: one.get("type") is not bool for one in params}


def table() -> dict[str, Options]:
    """Options of every command and of every stage, by name."""
    stages: dict[str, Options] = {name: {} for name in ("build", *STAGE_KINDS)}
    return {**dict(_own()), **stages, **dict(_ours())}


TABLE = table()


def uses(line: str) -> list[list[str]]:
    """What is given to doit by each call of it in the line; brackets of what may be left out are
    taken away, and what is in quotes is one word.
    """
    plain = line.replace("\\|", "/").replace("\\", "/").replace("[", " ").replace("]", " ")
    plain = re.sub(r"""(['"]).*?\1""", "QUOTED", re.sub(r"\s#.*", "", plain))
    called = re.findall(r"(?:^|[\s;&/])doit(?:\.exe)? ([^&;|>]*)", f" {plain}")
    return [one.split() for one in called]


def wrong(words: list[str]) -> list[str]:
    """What of it is no command, no stage and no option of the command."""
    found, options, awaited = [], dict(TABLE["run"]), False
    for word in words:
        name = word.removeprefix("--").partition("=")[0]
        if awaited:
            awaited = False
        elif word.startswith("--"):
            found += [] if name in options else [word]
            awaited = options.get(name, False) and "=" not in word
        elif word in TABLE:
            options |= TABLE[word]
        elif not (_PLACEHOLDER.fullmatch(word) or "=" in word or _is_file(word)):
            found.append(word)
    return found


def _is_file(word: str) -> bool:
    return word.startswith("-") or word.endswith((".whl", ".json", ".log", ".tar"))
