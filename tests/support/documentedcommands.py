"""The commands, options and profiles of `torchyard` and of `doit` in a checkout, and what a line of
documentation uses of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import click
import yaml
from doit.cmd_base import DodoTaskLoader
from doit.doit_cmd import DoitMain

from tasks.cli import front
from tasks.cli.session import generate_command_tasks
from tasks.core.project import Project
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.planning.profile_plan import STAGE_KINDS
from tasks.settings.layers_io import PROJECT_PROFILE
from tests.support.snippets import ROOT, every

Options = dict[str, bool]  # by name: whether a value comes after it

_PLACEHOLDER = re.compile(r"[A-Z][A-Z|:]*|extensions:\S+|…")
_PROFILE_OPTIONS = {"-p", "--profile"}


@dataclass(frozen=True)
class Use:
    """A call of a program in the documentation."""

    program: str
    words: tuple[str, ...]


def _list_doit_commands() -> Iterator[tuple[str, Options]]:
    found = DoitMain().get_cmds()
    for name in found:
        options = found.get_plugin(name)(task_loader=DodoTaskLoader(), cmds=found).cmdparser.options
        yield name, {f"--{one.long}": one.type is not bool for one in options if one.long}


def _list_tasks() -> Iterator[tuple[str, Options]]:
    subject = SelectedProfile(Project.of_checkout(ROOT), "quickstart", None)
    for task in generate_command_tasks(subject):
        options = {f"--{one['long']}": one.get("type") is not bool for one in task["params"]}
        yield task["basename"], options


def _list_torchyard_commands() -> Iterator[tuple[str, Options]]:
    root = click.Context(front._GROUP, info_name="torchyard")
    for name in front._GROUP.list_commands(root):
        command = front._GROUP.get_command(root, name)
        assert command
        yield name, _list_options(command)


def _list_options(command: click.Command) -> Options:
    """Return the options of a command, and the words that its arguments allow."""
    context = click.Context(command, info_name=command.name)
    found: Options = {}
    for one in command.get_params(context):
        if isinstance(one, click.Option):
            found |= dict.fromkeys(one.opts, not one.is_flag)
        elif isinstance(one.type, click.Choice):
            found |= dict.fromkeys(one.type.choices, False)
    return found


@cache
def list_commands(program: str) -> dict[str, Options]:
    """Return the options of every command and of every stage, by name; "" has those of all."""
    if program == "torchyard":
        return {"": _list_options(front._GROUP), **dict(_list_torchyard_commands())}
    doit = dict(_list_doit_commands())
    stages: dict[str, Options] = {name: {} for name in ("build", *STAGE_KINDS)}
    return {"": doit["run"], **doit, **stages, **dict(_list_tasks())}


@cache
def list_documented_profiles() -> frozenset[str]:
    """Return the built-in profiles, `default`, and those in an example of the documentation."""
    names = {PROJECT_PROFILE, *(path.stem for path in (ROOT / "config/profiles").glob("*.yaml"))}
    for one in every("yaml"):
        names.update(yaml.safe_load(one.text).get("profiles") or ())
        names.update(re.findall(r"^# config/profiles/([\w-]+)\.yaml", one.text))
    return frozenset(names)


def uses(line: str) -> list[Use]:
    """Return the calls in the line. Brackets of what may be left out are removed, and what is in
    quotes is one word.
    """
    plain = line.replace("\\|", "/").replace("\\", "/").replace("[", " ").replace("]", " ")
    plain = re.sub(r"""(['"]).*?\1""", "QUOTED", re.sub(r"\s#.*", "", plain))
    called = re.findall(r"(?:^|[\s;&/])(doit|torchyard)(?:\.exe)? ([^&;|>()]*)", f" {plain}")
    return [Use(program, tuple(words.split())) for program, words in called]


def wrong(use: Use) -> list[str]:
    """Return the words that are no command, stage, option of the command, or known profile."""
    table = list_commands(use.program)
    found, options, option = [], dict(table[""]), ""
    for word in use.words:
        name, equals, value = word.partition("=")
        if option:
            found += [word] if option in _PROFILE_OPTIONS and not _is_profile(word) else []
            option = ""
        elif word in options or (name in options and equals):
            option = word if options.get(word) else ""
        elif word in table:
            options |= table[word]
        elif word.startswith("-"):
            found += [word] if word.startswith("--") or use.program == "torchyard" else []
        elif use.program == "doit" and equals:
            found += [word] if name == "profile" and not _is_profile(value) else []
        elif not (_PLACEHOLDER.fullmatch(word) or _is_file(word)):
            found.append(word)
    return found


def _is_profile(word: str) -> bool:
    name = word.partition("@")[0].rstrip(".,:")
    return name in list_documented_profiles() or bool(_PLACEHOLDER.fullmatch(name))


def _is_file(word: str) -> bool:
    return word.endswith((".whl", ".json", ".log", ".tar"))
