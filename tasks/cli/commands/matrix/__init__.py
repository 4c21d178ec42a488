"""`doit matrix`: the builds of a profile's matrix and how each stands; `--build` builds those that
are not up to date, one after another, and publishes; `--workflow` writes the same matrix for GitHub
Actions or Slurm.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tasks.cli.commands.matrix import building
from tasks.cli.commands.matrix.standing import Standing, standings
from tasks.cli.commands.matrix.workflow import write
from tasks.core.digest import canonical, plain
from tasks.core.errors import SettingsError, redact
from tasks.core.formatting.lines import rows
from tasks.lock.profile import Subject
from tasks.settings.matrix_entries import divided
from tasks.system import tty
from tasks.system.files import deliver
from tasks.system.voice import show


def run(
    subject: Subject, build: bool = False, workflow: str = "", out: str = "", json: str = ""
) -> None:
    """List, and with `build` do it; `out` and `json` are files to write to. Raises `BuildError`
    where a build failed, or the settings hold no matrix.
    """
    name, _ = divided(subject.name)
    if workflow:
        write(subject.root, name, workflow, out)
        return
    found = list(standings(subject.root, name))
    if not found:
        raise SettingsError(
            f'the profile "{name}" has no matrix',
            where="matrix",
            todo="list what varies in the profile: docs/matrix.md",
        )
    if build:
        found = list(building.build(subject.root, found))
        if subject.asked().settings.publish.dest:
            found = list(building.publish(subject.root, found))
    if json:
        deliver(Path(json), redact(canonical({"profile": name, "cells": plain(found)})))
    _show(found)
    if build:
        building.require_all(found)


def _show(found: Sequence[Standing]) -> None:
    width = max(len(one.cell) for one in found)
    room = tty.width()
    for one in found:
        before = f"{one.cell:<{width}}  {one.state:<10}  "
        for line in rows(before, one.why, min(len(before), room // 2), room):
            show(line)
