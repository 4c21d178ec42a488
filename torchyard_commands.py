"""`doit help`, `doit tabcompletion` and what is told of a command line that means nothing, in a
checkout of torchyard; anywhere else they are doit's.

doit chooses these before it reads dodo.py, so they are entry points (pyproject.toml), and this file
is all that `pip install -e .` installs. What they tell is that of the checkout that doit stands in.
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
from doit.exceptions import InvalidCommand


def _checkout() -> Path | None:
    """The folder, where it is one of ours; `tasks` can be imported then."""
    here = Path.cwd()
    files = (here / "dodo.py", here / "tasks" / "cli" / "doit_overrides.py")
    if not all(file.is_file() for file in files):
        return None
    if str(here) not in sys.path:
        sys.path.insert(0, str(here))
    return here


if _checkout() is not None:
    # doit imports this file before any of its commands uses a standard stream
    from tasks.system.stdio import guard_standard_streams

    guard_standard_streams()


class _Printing(Command):  # type: ignore[misc]
    """A command that copes with closed, full or unread output."""

    def parse_execute(self, in_args: list[str]) -> Any:
        """Return the exit code: 1 if standard output could not be written."""
        code = super().parse_execute(in_args)
        if _checkout() is None:
            return code
        from tasks.system.stdio import compute_exit_code  # noqa: PLC0415 - only in a checkout

        return compute_exit_code(code)


class Help(_Printing, DoitsHelp):  # type: ignore[misc]
    """Without a name, what to do when."""

    name = "help"
    doc_purpose = "begin here: what to type when"  # in doit --help, which nothing can replace

    def execute(self, params: Any, args: list[str]) -> Any:
        """Show it; a name is told by `tasks.cli.doit_overrides` or by doit."""
        if args or _checkout() is None:
            return super().execute(params, args)
        from tasks.cli.doit_overrides import show_overview  # noqa: PLC0415 - only in a checkout

        show_overview()
        return 0


class TabCompletion(_Printing, DoitsCompletion):  # type: ignore[misc]
    """The script that asks `tasks.cli.complete`."""

    name = "tabcompletion"

    def execute(self, opt_values: Any, pos_args: list[str]) -> Any:
        """Write it to standard output."""
        script = f"completion.{opt_values['shell']}"
        here = _checkout()
        if here is None or not (here / "templates" / script).is_file():
            return super().execute(opt_values, pos_args)
        sys.stdout.write((here / "templates" / script).read_text(encoding="utf-8"))
        return 0


class _Telling(DoitCmdBase):  # type: ignore[misc]
    """Explain an unknown word or option with `tasks.cli.doit_overrides`."""

    task_list: Any = ()  # until dodo.py is read

    def parse_execute(self, in_args: list[str]) -> Any:
        """Raises `InvalidCommand` in our words; `--help` and `-h` are no mistake."""
        try:
            return super().parse_execute(in_args)
        except (CmdParseError, InvalidCommand) as error:
            if _checkout() is None:
                raise
            from tasks.cli.doit_overrides import show_requested_help, translate_usage_error  # noqa: PLC0415 - only in a checkout

            if show_requested_help(error, sys.argv[1:], self.task_list):
                return 0
            raise translate_usage_error(error, sys.argv[1:], in_args, self.task_list) from None


class Run(_Printing, _Telling, DoitsRun):  # type: ignore[misc]
    """What `doit build` is."""


class List(_Printing, _Telling, DoitsList):  # type: ignore[misc]
    """The tasks, as `tasks.cli.doit_overrides` lists them."""


class Clean(_Printing, _Telling, DoitsClean):  # type: ignore[misc]
    """doit's own."""


class Forget(_Printing, _Telling, DoitsForget):  # type: ignore[misc]
    """doit's own."""


class Ignore(_Printing, _Telling, DoitsIgnore):  # type: ignore[misc]
    """doit's own."""


class ResetDep(_Printing, _Telling, DoitsResetDep):  # type: ignore[misc]
    """doit's own."""


class Info(_Printing, _Telling, DoitsInfo):  # type: ignore[misc]
    """doit's own, which ends with a traceback for what is no task."""

    def _execute(self, pos_args: list[str], hide_status: bool = False) -> Any:
        check_tasks_exist({task.name for task in self.task_list}, pos_args)
        return super()._execute(pos_args, hide_status)
