"""The same matrix as a workflow of GitHub Actions, or as an array of Slurm jobs."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasks.core.errors import TorchyardError
from tasks.knowledge.versions import parse_major_minor
from tasks.settings import forms
from tasks.settings.load import LoadedSettings, load_settings
from tasks.settings.matrix_entries import expand_matrix
from tasks.settings.variables import ENV_PREFIX
from tasks.system.files import write_user_file
from tasks.system.render import render_template
from tasks.system.voice import print_report, print_warning

_WORKFLOW_TEMPLATES = {"github": "github.yml.j2", "slurm": "slurm.sh.j2"}
_MAX_WORKFLOW_JOBS = 256  # jobs of one matrix (docs.github.com, "Usage limits")
_RUNNER_PYTHON = "3.12"  # a Python that torchyard itself runs on
_OLDEST_PYTHON = (3, 11)  # pyproject.toml


def write_workflow(root: Path, profile: str, kind: str, out: str) -> None:
    """Show it, or write it to the file `out`. Raises `BuildError` where a kind, or the name of the
    profile, is none that such a file could hold.
    """
    if kind not in _WORKFLOW_TEMPLATES:
        raise TorchyardError(
            f'there is no workflow "{kind}"', location="--workflow", hint="write github or slurm"
        )
    loaded = load_settings(root / "config", profile, os.environ)
    values = _build_template_values(root, profile, kind, loaded)
    _warn_about_local_settings(loaded, kind)
    text = render_template(root / "templates" / "matrix" / _WORKFLOW_TEMPLATES[kind], values)
    if out:
        write_user_file(Path(out), text)
        print_report(f"wrote {out}: {len(values['cells'])} builds")
    else:
        print_report(text.rstrip("\n"))


def _build_template_values(
    root: Path, profile: str, kind: str, loaded: LoadedSettings
) -> Mapping[str, Any]:
    if not re.fullmatch(forms.NAME_PATTERN.strip("^$"), profile):
        raise TorchyardError(
            f'"{profile}" is no name for a workflow',
            location="config/profiles",
            hint=f"rename the profile: {forms.PATTERN_HINTS[forms.NAME_PATTERN]}",
        )
    names = list(expand_matrix(loaded.settings.matrix))
    if not names or (kind == "github" and len(names) > _MAX_WORKFLOW_JOBS):
        raise TorchyardError(
            f"a workflow holds 1 to {_MAX_WORKFLOW_JOBS} builds, and this matrix has {len(names)}",
            location="matrix",
            hint="see doit matrix, and docs/matrix.md",
        )
    return {
        "profile": profile,
        "root": str(root),
        "wheelhouse": loaded.settings.wheel.wheelhouse,
        "cells": [_build_workflow_entry(root, f"{profile}@{name}", name) for name in names],
    }


def _build_workflow_entry(root: Path, profile: str, name: str) -> dict[str, str]:
    python = load_settings(root / "config", profile, os.environ).settings.python
    return {"name": name, "profile": profile, "python": _format_pythons(python)}


def _format_pythons(asked: str) -> str:
    """Those to set up, the last of them to run doit; a path is of this machine."""
    if not re.fullmatch(r"\d+\.\d+(\.\d+)?", asked):
        return _RUNNER_PYTHON
    return f"{asked}\n{_RUNNER_PYTHON}" if parse_major_minor(asked) < _OLDEST_PYTHON else asked


def _warn_about_local_settings(loaded: LoadedSettings, kind: str) -> None:
    """A runner has the repository alone."""
    local = sorted(
        key
        for key, where in loaded.origin.items()
        if kind == "github" and where.startswith(("config/local", ENV_PREFIX))
    )
    if local:
        print_warning(
            f"{', '.join(local)}: from config/local.yaml or the environment, which a runner of "
            "GitHub does not have; what it is to go by belongs into the profile"
        )
