"""`doit help` and `doit tabcompletion` in a checkout of torchyard; anywhere else they are doit's.

doit chooses these before it reads dodo.py, so they are entry points (pyproject.toml), and this file
is all that `pip install -e .` installs. What they tell is that of the checkout that doit stands in.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from doit.cmd_completion import TabCompletion as DoitsCompletion
from doit.cmd_help import Help as DoitsHelp


def _checkout() -> Path | None:
    """The folder, where it is one of ours; `tasks` can be imported then."""
    here = Path.cwd()
    if not (here / "dodo.py").is_file() or not (here / "tasks" / "lookups.py").is_file():
        return None
    if str(here) not in sys.path:
        sys.path.insert(0, str(here))
    return here


class Help(DoitsHelp):  # type: ignore[misc]
    """Without a name, what to do when."""

    name = "help"

    def execute(self, params: Any, args: list[str]) -> Any:
        """Show it; a name is told by `tasks.lookups` or by doit."""
        if args or _checkout() is None:
            return super().execute(params, args)
        from tasks.lookups import overview  # noqa: PLC0415 - only in a checkout

        overview()
        return 0


class TabCompletion(DoitsCompletion):  # type: ignore[misc]
    """The script that asks `tasks.complete`."""

    name = "tabcompletion"

    def execute(self, opt_values: Any, pos_args: list[str]) -> Any:
        """Write it to standard output."""
        script = f"completion.{opt_values['shell']}"
        here = _checkout()
        if here is None or not (here / "templates" / script).is_file():
            return super().execute(opt_values, pos_args)
        sys.stdout.write((here / "templates" / script).read_text(encoding="utf-8"))
        return 0
