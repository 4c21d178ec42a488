"""The same matrix as a workflow of GitHub Actions, or as an array of Slurm jobs."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasks.core.errors import BuildError
from tasks.knowledge.versions import numbers
from tasks.settings import forms
from tasks.settings.load import Loaded, load
from tasks.settings.matrix_entries import cells
from tasks.settings.variables import ENV_PREFIX
from tasks.system.files import deliver
from tasks.system.render import render
from tasks.system.voice import show, warn

_TEMPLATES = {"github": "github.yml.j2", "slurm": "slurm.sh.j2"}
_MOST = 256  # jobs of one matrix (docs.github.com, "Usage limits")
_RUNS = "3.12"  # a Python that torchyard itself runs on
_OLDEST = (3, 11)  # pyproject.toml


def write(root: Path, profile: str, kind: str, out: str) -> None:
    """Show it, or write it to the file `out`. Raises `BuildError` where a kind, or the name of the
    profile, is none that such a file could hold.
    """
    if kind not in _TEMPLATES:
        raise BuildError(
            f'there is no workflow "{kind}"', where="--workflow", todo="write github or slurm"
        )
    loaded = load(root / "config", profile, os.environ)
    values = _values(root, profile, kind, loaded)
    _warn_of_what_stays_here(loaded, kind)
    text = render(root / "templates" / "matrix" / _TEMPLATES[kind], values)
    if out:
        deliver(Path(out), text)
        show(f"wrote {out}: {len(values['cells'])} builds")
    else:
        show(text.rstrip("\n"))


def _values(root: Path, profile: str, kind: str, loaded: Loaded) -> Mapping[str, Any]:
    if not re.fullmatch(forms.NAME.strip("^$"), profile):
        raise BuildError(
            f'"{profile}" is no name for a workflow',
            where="config/profiles",
            todo=f"rename the profile: {forms.WORDS[forms.NAME]}",
        )
    names = list(cells(loaded.settings.matrix))
    if not names or (kind == "github" and len(names) > _MOST):
        raise BuildError(
            f"a workflow holds 1 to {_MOST} builds, and this matrix has {len(names)}",
            where="matrix",
            todo="see doit matrix, and docs/matrix.md",
        )
    return {
        "profile": profile,
        "root": str(root),
        "wheelhouse": loaded.settings.wheel.wheelhouse,
        "cells": [_cell(root, f"{profile}@{name}", name) for name in names],
    }


def _cell(root: Path, profile: str, name: str) -> dict[str, str]:
    python = load(root / "config", profile, os.environ).settings.python
    return {"name": name, "profile": profile, "python": _pythons(python)}


def _pythons(asked: str) -> str:
    """Those to set up, the last of them to run doit; a path is of this machine."""
    if not re.fullmatch(r"\d+\.\d+(\.\d+)?", asked):
        return _RUNS
    return f"{asked}\n{_RUNS}" if numbers(asked) < _OLDEST else asked


def _warn_of_what_stays_here(loaded: Loaded, kind: str) -> None:
    """A runner has the repository alone."""
    local = sorted(
        key
        for key, where in loaded.origin.items()
        if kind == "github" and where.startswith(("config/local", ENV_PREFIX))
    )
    if local:
        warn(
            f"{', '.join(local)}: from config/local.yaml or the environment, which a runner of "
            "GitHub does not have; what it is to go by belongs into the profile"
        )
