"""`doit matrix`: the builds of a profile's matrix and how each stands; `--build` builds those that
are not up to date, one after another, and publishes; `--workflow` writes the same matrix for GitHub
Actions or Slurm.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tasks.cli.commands.matrix import building
from tasks.cli.commands.matrix.standing import EntryStatus, list_entry_statuses
from tasks.cli.commands.matrix.workflow import write_workflow
from tasks.core.digest import convert_to_json, format_canonical_json
from tasks.core.errors import SettingsError, redact_secrets
from tasks.core.formatting.lines import format_labeled_lines
from tasks.lock.profile import SelectedProfile
from tasks.settings.matrix_entries import split_profile_name
from tasks.system import tty
from tasks.system.files import write_user_file
from tasks.system.voice import print_report


def run(
    subject: SelectedProfile, build: bool = False, workflow: str = "", out: str = "", json: str = ""
) -> None:
    """List, and with `build` do it; `out` and `json` are files to write to. Raises `BuildError`
    where a build failed, or the settings hold no matrix.
    """
    name, _ = split_profile_name(subject.name)
    if workflow:
        write_workflow(subject.root, name, workflow, out)
        return
    found = list(list_entry_statuses(subject.root, name))
    if not found:
        raise SettingsError(
            f'the profile "{name}" has no matrix',
            location="matrix",
            hint="list what varies in the profile: docs/matrix.md",
        )
    if build:
        found = list(building.build_entries(subject.root, found))
        if subject.read_settings().settings.publish.dest:
            found = list(building.publish_entries(subject.root, found))
    if json:
        write_user_file(
            Path(json),
            redact_secrets(
                format_canonical_json({"profile": name, "cells": convert_to_json(found)})
            ),
        )
    _show_statuses(found)
    if build:
        building.require_all_done(found)


def _show_statuses(found: Sequence[EntryStatus]) -> None:
    width = max(len(one.cell) for one in found)
    room = tty.read_terminal_width()
    for one in found:
        before = f"{one.cell:<{width}}  {one.state:<10}  "
        for line in format_labeled_lines(before, one.why, min(len(before), room // 2), room):
            print_report(line)
