"""What can be seen to be wrong with install.into before anything runs: offline."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from tasks.core.errors import SettingsError
from tasks.core.model import Layout
from tasks.core.resolution import Choice
from tasks.settings.schema import Settings
from tasks.stages.install.target.interpreter import KEY, OWN_VENV, Glance, find, glance, is_name


def check(settings: Settings, layout: Layout, choice: Choice, ours: Collection[str]) -> None:
    """Raise a `SettingsError` for an interpreter that is not there, is none, is ours, into which
    nothing can be installed, or is another Python than wheels are made for. `ours` are the prefixes
    of the environment that runs doit, and of the Python that it was made of.

    Those are taken where the path is written out, and not where a name on PATH leads there: in a
    venv that is active, `python` is the one that torchyard was installed into.
    """
    into = settings.install.into
    if into is None:
        return
    python = find(into, layout.root)
    found = glance(python)
    if found.prefix == os.path.realpath(layout.venv):
        raise SettingsError(
            f"{python} is of the environment that this profile builds itself",
            where=KEY,
            todo="name the Python of another one",
        )
    if is_name(into) and found.prefix in map(os.path.realpath, ours):
        raise SettingsError(
            f"{into} on PATH is {python}, the Python of doit itself",
            where=KEY,
            todo=f"write the path of the Python that you mean; {python}, if it is this one",
        )
    _require_open(python, found)
    _require_alike(python, found, choice)


def _require_open(python: Path, found: Glance) -> None:
    """The install looks again, hours later; what is wrong now need not wait for it."""
    if found.managed:
        raise SettingsError(
            f"{python} is managed by the system, which says that nobody else installs there "
            f"({found.managed})",
            where=KEY,
            todo=OWN_VENV,
        )
    if found.closed:
        raise SettingsError(
            f"you may not write to {found.closed}, of {python}", where=KEY, todo=OWN_VENV
        )


def _require_alike(python: Path, found: Glance, choice: Choice) -> None:
    """What is built for one Python is of no use to another: known before hours of compiling."""
    meant = Path(choice.python.path)
    if meant.is_file() and str(found) != str(made := glance(meant, "python")):
        raise SettingsError(
            f"{python} is {found}, and this profile builds for {made}",
            where=KEY,
            todo=f"set python: {python}, where torch {choice.torch} is for it; or name the Python "
            f"of an environment with {made}",
        )
