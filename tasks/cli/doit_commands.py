"""The commands beside the stages: each a task of doit that runs a report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Any

from tasks.cli.help_pages import COMMAND_PAGES, CommandOption
from tasks.cli.running.doit_tasks import DoitTask, resolve_user_path
from tasks.cli.running.execute import run_command_action
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.system.profile_hint import add_profile_to_errors


def generate_command_tasks(subject: SelectedProfile) -> Iterator[DoitTask]:
    """All of them, as `tasks.cli.help` tells them."""
    for command in COMMAND_PAGES:
        task: DoitTask = {
            "basename": command.name,
            "doc": command.doc,
            "actions": [(run_command_action, [_build_command_action(command.name, subject)])],
            "params": [_build_parameter(option) for option in command.options],
        }
        if command.takes:
            task["pos_arg"] = f"{command.takes.lower()}s"
        if command.name == "init":
            task["io"] = {"capture": False}  # it asks, and is answered
        yield task


def _build_parameter(option: CommandOption) -> DoitTask:
    """A file or a folder is meant from where doit was started."""
    typed = _OPTION_TYPES.get(option.value, str) if option.value else bool
    default = "" if option.value else False
    told = {"name": option.name, "long": option.name, "help": option.meaning}
    return {**told, "type": typed, "default": default}


def _resolve_destination(typed: str) -> str:
    from tasks.wheels.package_index_io import is_local_index  # noqa: PLC0415 - only for publish

    return resolve_user_path(typed) if is_local_index(typed) else typed


def _resolve_python(typed: str) -> str:
    """A name alone is looked for on PATH."""
    return typed if PurePath(typed).name == typed else resolve_user_path(typed)


_OPTION_TYPES: dict[str, Callable[[str], str]] = {
    **dict.fromkeys(("FILE", "FOLDER", "PATH"), resolve_user_path),
    "PLACE": _resolve_destination,
    "PYTHON": _resolve_python,
}


def _build_command_action(name: str, subject: SelectedProfile) -> Callable[..., None]:
    def run_command(**params: Any) -> None:
        import importlib  # noqa: PLC0415 - a report is loaded when it is asked for

        if params.get("wheels"):
            params["wheels"] = [resolve_user_path(one) for one in params["wheels"]]
        with add_profile_to_errors(subject.name):
            importlib.import_module(f"tasks.cli.commands.{name}").run(subject, **params)

    return run_command
