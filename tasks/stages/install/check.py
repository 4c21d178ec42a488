"""What can be seen to be wrong with install.into before anything runs: offline."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from tasks.core.errors import SettingsError
from tasks.core.model import Layout
from tasks.core.resolution import Resolution
from tasks.settings.schema import Settings
from tasks.stages.install.target.interpreter import (
    SETTING_KEY,
    VENV_HINT,
    InterpreterInfo,
    find_interpreter,
    inspect_interpreter,
    is_program_name,
)


def check_install_target(
    settings: Settings, layout: Layout, choice: Resolution, ours: Collection[str]
) -> None:
    """Raise a `SettingsError` for an interpreter that is not there, is none, is ours, into which
    nothing can be installed, or is another Python than wheels are made for. `ours` are the prefixes
    of the environment that runs doit, and of the Python that it was made of.

    Those are taken where the path is written out, and not where a name on PATH leads there: in a
    venv that is active, `python` is the one that torchyard was installed into.
    """
    into = settings.install.into
    if into is None:
        return
    python = find_interpreter(into, layout.root)
    found = inspect_interpreter(python)
    if found.prefix == os.path.realpath(layout.venv):
        raise SettingsError(
            f"{python} is of the environment that this profile builds itself",
            location=SETTING_KEY,
            hint="name the Python of another one",
        )
    if is_program_name(into) and found.prefix in map(os.path.realpath, ours):
        raise SettingsError(
            f"{into} on PATH is {python}, the Python of doit itself",
            location=SETTING_KEY,
            hint=f"write the path of the Python that you mean; {python}, if it is this one",
        )
    _require_writable(python, found)
    _require_same_python(python, found, choice)


def _require_writable(python: Path, found: InterpreterInfo) -> None:
    """The install looks again, hours later; what is wrong now need not wait for it."""
    if found.managed:
        raise SettingsError(
            f"{python} is managed by the system, which says that nobody else installs there "
            f"({found.managed})",
            location=SETTING_KEY,
            hint=VENV_HINT,
        )
    if found.unwritable:
        raise SettingsError(
            f"you may not write to {found.unwritable}, of {python}",
            location=SETTING_KEY,
            hint=VENV_HINT,
        )


def _require_same_python(python: Path, found: InterpreterInfo, choice: Resolution) -> None:
    """What is built for one Python is of no use to another: known before hours of compiling."""
    meant = Path(choice.python.path)
    if meant.is_file() and str(found) != str(made := inspect_interpreter(meant, "python")):
        raise SettingsError(
            f"{python} is {found}, and this profile builds for {made}",
            location=SETTING_KEY,
            hint=f"set python: {python}, where torch {choice.torch} is for it; or name the Python "
            f"of an environment with {made}",
        )
