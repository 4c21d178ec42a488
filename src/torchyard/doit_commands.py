"""doit's commands and sqlite3 backend, adapted to torchyard.

The command `torchyard` uses them. doit itself uses them in a checkout of torchyard: it chooses its
plugins before it reads dodo.py, so they are entry points (pyproject.toml). Elsewhere they behave
like those of doit. The implementation is in `tasks`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from doit.cmd_base import Command, DoitCmdBase, check_tasks_exist
from doit.cmd_clean import Clean as DoitsClean
from doit.cmd_completion import TabCompletion as DoitsCompletion
from doit.cmd_forget import Forget as DoitsForget
from doit.cmd_help import Help as DoitsHelp
from doit.cmd_ignore import Ignore as DoitsIgnore
from doit.cmd_info import Info as DoitsInfo
from doit.cmd_list import List as DoitsList
from doit.cmd_resetdep import ResetDep as DoitsResetDep
from doit.cmd_run import Run as DoitsRun
from doit.cmdparse import CmdParseError
from doit.dependency import SqliteDB
from doit.exceptions import InvalidCommand, InvalidDodoFile

from torchyard import make_tasks_importable


def _checkout(folder: Path | None = None) -> Path | None:
    """Return `folder`, by default the current one, if it is a checkout, else None.

    `tasks` is importable afterwards.
    """
    here = folder or Path.cwd()
    files = (here / "dodo.py", here / "tasks" / "cli" / "running" / "database.py")
    if not all(file.is_file() for file in files):
        return None
    make_tasks_importable(here)
    return here


_by_torchyard = [False]  # True if the command `torchyard` runs doit


def activate() -> None:
    """Use torchyard's commands in this process, in any folder."""
    from tasks.system.stdio import guard_standard_streams  # noqa: PLC0415 - only with torchyard

    _by_torchyard[0] = True
    guard_standard_streams()


def _is_active() -> bool:
    """Return True if torchyard runs doit, or doit runs in a checkout."""
    return _by_torchyard[0] or _checkout() is not None


if _checkout() is not None:
    # doit imports this file before any of its commands uses a standard stream
    from tasks.system.stdio import guard_standard_streams

    guard_standard_streams()


def _has_checkout(params: Any) -> bool:
    """Return True if doit loads torchyard's tasks, from the dodo.py of a checkout or without."""
    if _by_torchyard[0]:
        return True
    dodo = Path(params.get("dodoFile", "")).absolute()
    folders = (dodo.parent, *(dodo.parent.parents if params.get("seek_file") else ()))
    found = next((folder for folder in folders if (folder / dodo.name).is_file()), None)
    return dodo.name == "dodo.py" and found is not None and _checkout(found) is not None


def open_database(name: str, codec: Any, *, module_name: str | None = None) -> Any:
    """Return doit's database; doit calls this after it has read dodo.py."""
    if not _is_active():
        return SqliteDB(name, codec, module_name=module_name)
    from tasks.cli.running.database import Database  # noqa: PLC0415 - only with torchyard

    return Database(name, codec)


class _Printing(Command):  # type: ignore[misc]
    """A command that handles closed, full or unread standard output."""

    def parse_execute(self, in_args: list[str]) -> Any:
        """Return the exit code: 1 if standard output could not be written."""
        code = super().parse_execute(in_args)
        if not _is_active():
            return code
        from tasks.system.stdio import compute_exit_code  # noqa: PLC0415 - only with torchyard

        return compute_exit_code(code)


class _Loading(DoitCmdBase):  # type: ignore[misc]
    """A command that loads the tasks of a checkout without opening a database."""

    def load_session(self, params: Any, args: list[str]) -> Any:
        """Set `task_list`; return the session of dodo.py, None if the profile cannot be opened."""
        self.loader.setup(params)
        session = self.loader.load_doit_config()["torchyard_session"]
        self.task_list = self.loader.load_tasks(cmd=self, pos_args=args)
        return session


class Help(_Printing, _Loading, DoitsHelp):  # type: ignore[misc]
    """`doit help`: an overview, or the page of one task."""

    name = "help"
    doc_purpose = "begin here: show what to type"  # in doit --help, which nothing can replace

    def execute(self, params: Any, args: list[str]) -> Any:
        """Print the overview or a page; doit prints the pages of its commands."""
        if not args and _is_active():
            from tasks.cli.doit_overrides import show_overview  # noqa: PLC0415 - only with torchyard

            show_overview()
            return 0
        if len(args) != 1 or args[0] in {"task", *self.cmds} or not _has_checkout(params):
            return super().execute(params, args)
        try:
            session = self.load_session(params, args)
        except InvalidDodoFile:
            self.print_usage(self.cmds)
            return 0
        from tasks.cli.doit_overrides import show_help_page  # noqa: PLC0415 - only with torchyard

        show_help_page(session, self.task_list, args[0])
        return 0


class TabCompletion(_Printing, DoitsCompletion):  # type: ignore[misc]
    """`doit tabcompletion`: the shell script that calls `tasks.cli.complete`."""

    name = "tabcompletion"

    def execute(self, opt_values: Any, pos_args: list[str]) -> Any:
        """Write the script to standard output."""
        script = f"completion.{opt_values['shell']}"
        here = _checkout()
        if here is None or not (here / "templates" / script).is_file():
            return super().execute(opt_values, pos_args)
        sys.stdout.write((here / "templates" / script).read_text(encoding="utf-8"))
        return 0


class _Explaining(DoitCmdBase):  # type: ignore[misc]
    """A command that explains unknown words and options with `tasks.cli.doit_overrides`."""

    task_list: Any = ()  # until dodo.py is read

    def parse_execute(self, in_args: list[str]) -> Any:
        """Run the command; show help for `--help` and `-h`.

        Raises `InvalidCommand` with torchyard's message for anything else that doit rejects.
        """
        try:
            return super().parse_execute(in_args)
        except (CmdParseError, InvalidCommand) as error:
            if not _is_active():
                raise
            from tasks.cli.doit_overrides import show_requested_help, translate_usage_error  # noqa: PLC0415 - only with torchyard

            if show_requested_help(error, sys.argv[1:], self.task_list):
                return 0
            raise translate_usage_error(error, sys.argv[1:], in_args, self.task_list) from None


class Run(_Printing, _Explaining, DoitsRun):  # type: ignore[misc]
    """`doit run`, the default command: `doit build` is short for `doit run build`."""


class List(_Printing, _Explaining, _Loading, DoitsList):  # type: ignore[misc]
    """`doit list`: the tasks in the order in which they run. Output for scripts is doit's."""

    def execute(self, params: Any, args: list[str]) -> Any:
        """Print the list."""
        is_for_script = any(params[name] for name in ("quiet", "list_deps", "template"))
        if is_for_script or params["sort"] != "name" or not _has_checkout(params):
            return super().execute(params, args)
        session = self.load_session(params, args)
        from tasks.cli.doit_overrides import show_task_list  # noqa: PLC0415 - only with torchyard

        show_task_list(
            session, self.task_list, args, subtasks=params["subtasks"], status=params["status"]
        )
        return 0


class Clean(_Printing, _Explaining, DoitsClean):  # type: ignore[misc]
    """`doit clean`, which prints the files that it removes."""

    def clean_tasks(self, tasks: Any, dryrun: bool, cleanforget: bool) -> None:
        """Remove the results of these tasks."""
        session = self.loader.load_doit_config().get("torchyard_session")
        if session is None:
            super().clean_tasks(tasks, dryrun, cleanforget)
            return
        from tasks.cli.doit_overrides import clean_stages  # noqa: PLC0415 - only with torchyard

        names = list(dict.fromkeys(task.name for task in tasks))
        clean_stages(session, names, dryrun=dryrun)
        for name in names if cleanforget and not dryrun else ():
            self.dep_manager.remove(name)
        self.dep_manager.close()


class Forget(_Printing, _Explaining, DoitsForget):  # type: ignore[misc]
    """`doit forget`, with explained errors."""


class Ignore(_Printing, _Explaining, DoitsIgnore):  # type: ignore[misc]
    """`doit ignore`, with explained errors."""


class ResetDep(_Printing, _Explaining, DoitsResetDep):  # type: ignore[misc]
    """`doit reset-dep`, with explained errors."""


class Info(_Printing, _Explaining, DoitsInfo):  # type: ignore[misc]
    """`doit info`, without doit's `KeyError` for an unknown task."""

    def execute(self, params: Any, args: list[str]) -> Any:
        """Print the facts of a task. Raises `InvalidCommand` if the task does not exist."""
        try:
            return super().execute(params, args)
        except KeyError:
            if self.task_list:
                check_tasks_exist({task.name for task in self.task_list}, args)
            raise
