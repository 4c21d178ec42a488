"""Another Python, where the release is not for the one that is meant."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tasks.core.errors import BuildError
from tasks.knowledge.facts import Release
from tasks.knowledge.releases import release, wheel_pythons
from tasks.knowledge.versions import numbers
from tasks.planning.suggestions.trial import Remedy, Trial
from tasks.planning.toolkit import ARCHIVE


def pythons(trial: Trial) -> Iterator[Remedy]:
    """The end of the release's range that is nearer to the Python that is meant, then the other.

    Which others this machine has is not known: to look for them takes processes, and this is pure.
    """
    found = _refusing(trial)
    for version in fitting_pythons(trial, found) if found else ():
        python = replace(trial.host.python, version=version, torch=None)
        if choice := trial.of(replace(trial.host, python=python)):
            yield Remedy(python_hint(version, into=bool(trial.settings.install.into)), choice)


def pythons_and_toolkits(trial: Trial) -> Iterator[Remedy]:
    """Where neither alone helps: another Python, and a toolkit installed."""
    for remedy in pythons(trial.with_every_toolkit()):
        cuda = remedy.choice.toolkit.version
        yield replace(remedy, todo=f"{remedy.todo} and install CUDA {cuda} ({ARCHIVE})")


def python_hint(version: str, *, into: bool) -> str:
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


def _refusing(trial: Trial) -> Release | None:
    """The release that was asked for, where it is known and not for this Python."""
    try:
        found = release(trial.knowledge, trial.settings.torch.version)
    except BuildError:
        return None
    return None if fitting_pythons(trial, found) == ("",) else found


def fitting_pythons(trial: Trial, found: Release) -> tuple[str, ...]:
    """Return the Pythons to try with that release, the nearest first; only "" if the current one
    fits.
    """
    host, python = trial.host, numbers(trial.host.python.version)
    first, last = found.python
    if trial.settings.torch.strategy == "prebuilt":
        first, last = wheel_pythons(found, host.system, host.machine)
    if not last:
        return ()
    if numbers(first) <= python <= numbers(last):
        return ("",)
    return tuple(dict.fromkeys((first, last) if python < numbers(first) else (last, first)))
