"""Another Python, where the release is not for the one that is meant."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tasks.core.errors import TorchyardError
from tasks.knowledge.facts import Release
from tasks.knowledge.releases import find_release, find_wheel_pythons
from tasks.knowledge.versions import parse_major_minor
from tasks.planning.suggestions.trial import Suggestion, WhatIf
from tasks.planning.toolkit import CUDA_ARCHIVE_URL


def suggest_pythons(trial: WhatIf) -> Iterator[Suggestion]:
    """The end of the release's range that is nearer to the Python that is meant, then the other.

    Which others this machine has is not known: to look for them takes processes, and this is pure.
    """
    found = _find_unsupported_release(trial)
    for version in list_fitting_pythons(trial, found) if found else ():
        python = replace(trial.host.python, version=version, torch=None)
        if choice := trial.resolve_with(replace(trial.host, python=python)):
            yield Suggestion(
                format_python_hint(version, into=bool(trial.settings.install.into)), choice
            )


def suggest_pythons_and_toolkits(trial: WhatIf) -> Iterator[Suggestion]:
    """Where neither alone helps: another Python, and a toolkit installed."""
    for remedy in suggest_pythons(trial.add_all_toolkits()):
        cuda = remedy.resolution.toolkit.version
        yield replace(remedy, hint=f"{remedy.hint} and install CUDA {cuda} ({CUDA_ARCHIVE_URL})")


def format_python_hint(version: str, *, into: bool) -> str:
    """Return the hint to change to that Python. install.into must then change too: its environment
    is of the current Python, and wheels for another cannot be installed there.
    """
    if into:
        return (
            f"make an environment of Python {version} (conda create -n NAME python={version}, or "
            f"uv venv --python {version} FOLDER) with what your project needs, and name its Python "
            "in install.into and python (doit init does both)"
        )
    return f'set python: "{version}" (uv python install {version} where it is not installed)'


def _find_unsupported_release(trial: WhatIf) -> Release | None:
    """The release that was asked for, where it is known and not for this Python."""
    try:
        found = find_release(trial.knowledge, trial.settings.torch.version)
    except TorchyardError:
        return None
    return None if list_fitting_pythons(trial, found) == ("",) else found


def list_fitting_pythons(trial: WhatIf, found: Release) -> tuple[str, ...]:
    """Return the Pythons to try with that release, the nearest first; only "" if the current one
    fits.
    """
    host, python = trial.host, parse_major_minor(trial.host.python.version)
    first, last = found.python
    if trial.settings.torch.strategy == "prebuilt":
        first, last = find_wheel_pythons(found, host.system, host.machine)
    if not last:
        return ()
    if parse_major_minor(first) <= python <= parse_major_minor(last):
        return ("",)
    return tuple(
        dict.fromkeys((first, last) if python < parse_major_minor(first) else (last, first))
    )
