"""The commands beside the stages: each a task of doit that runs a report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Any

from tasks.cli.help.commands import COMMANDS
from tasks.cli.help.page import Option
from tasks.cli.running.execution import failing
from tasks.cli.running.graph import Task, from_where
from tasks.lock.profile import Subject
from tasks.system.typed import naming


def command_tasks(subject: Subject) -> Iterator[Task]:
    """All of them, as `tasks.cli.help` tells them."""
    for command in COMMANDS:
        task: Task = {
            "basename": command.name,
            "doc": command.doc,
            "actions": [(failing, [_report(command.name, subject)])],
            "params": [_param(option) for option in command.options],
        }
        if command.takes:
            task["pos_arg"] = f"{command.takes.lower()}s"
        if command.name == "init":
            task["io"] = {"capture": False}  # it asks, and is answered
        yield task


def _param(option: Option) -> Task:
    """A file or a folder is meant from where doit was started."""
    typed = _TYPES.get(option.value, str) if option.value else bool
    default = "" if option.value else False
    told = {"name": option.name, "long": option.name, "help": option.meaning}
    return {**told, "type": typed, "default": default}


def _destination(typed: str) -> str:
    from tasks.wheels.index.sending import is_folder  # noqa: PLC0415 - only for publish

    return from_where(typed) if is_folder(typed) else typed


def _python(typed: str) -> str:
    """A name alone is looked for on PATH."""
    return typed if PurePath(typed).name == typed else from_where(typed)


_TYPES: dict[str, Callable[[str], str]] = {
    **dict.fromkeys(("FILE", "FOLDER", "PATH"), from_where),
    "PLACE": _destination,
    "PYTHON": _python,
}


def _report(name: str, subject: Subject) -> Callable[..., None]:
    def run(**params: Any) -> None:
        import importlib  # noqa: PLC0415 - a report is loaded when it is asked for

        if params.get("wheels"):
            params["wheels"] = [from_where(one) for one in params["wheels"]]
        with naming(subject.name):
            importlib.import_module(f"tasks.cli.commands.{name}").run(subject, **params)

    return run
