"""Another release of torch, or another way to it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

from tasks.core.model import Strategy
from tasks.core.resolution import Choice
from tasks.knowledge.releases import nearest, wheel_for
from tasks.knowledge.versions import numbers
from tasks.planning.suggestions.trial import Remedy, Trial
from tasks.planning.toolkit import ARCHIVE
from tasks.planning.torch import wants_source
from tasks.settings.schema import Settings

_AUTO = {"version": "auto"}


def torches(trial: Trial) -> Iterator[Remedy]:
    """The nearest release, newer before older, and one whose wheel was looked at before one that is
    known by inference. Not where a tree or an index of one's own is meant.
    """
    settings = trial.settings
    if settings.torch.strategy == "existing" or wants_source(settings):
        return
    if settings.torch.index != "auto":
        return
    kept = settings.toolkit.version == "auto" or trial.of(toolkit=_AUTO)
    unsure = []
    for other in nearest(trial.knowledge, settings.torch.version):
        for more in ({},) if kept else ({}, _AUTO):
            choice = trial.of(torch={"version": other.patch}, toolkit=more)
            if choice and choice.strategy == _meant(settings):
                remedy = Remedy(_take(other.patch, choice, more), choice)
                if _looked_at(trial, choice):
                    yield remedy
                unsure.append(remedy)
    yield from unsure


def torches_and_toolkits(trial: Trial) -> Iterator[Remedy]:
    """Where neither alone helps: another release, with its toolkit installed."""
    for remedy in torches(trial.with_every_toolkit()):
        cuda = remedy.choice.toolkit.version
        yield replace(remedy, todo=f"install CUDA {cuda} ({ARCHIVE}) and {remedy.todo}")


def strategies(trial: Trial) -> Iterator[Remedy]:
    """A build, where a wheel was asked for."""
    if trial.settings.torch.strategy != "prebuilt":
        return
    choice = trial.of(torch={"strategy": "source"})
    if choice:
        yield Remedy("torch.strategy: source, to build it", choice)


def other_wheels(trial: Trial) -> Iterator[Remedy]:
    """Yield official wheels that are known to hold code for every target, other than the current
    one: of the same minor release first, then of the nearest.
    """
    now = trial.of()
    for version in _versions(trial):
        keys = {"index": "auto", "version": version, "local": None, "sha256": None}
        choice = trial.of(torch=keys)
        if choice is None or choice.strategy != "prebuilt" or not _looked_at(trial, choice):
            continue
        if not now or (now.torch, now.index) != (choice.torch, choice.index):
            yield Remedy(f"set {_changed(trial, keys)}: {choice.strategy_why}", choice)


def own_build(trial: Trial) -> Iterator[Remedy]:
    """Yield a source build in place of the current wheel."""
    keys = {"strategy": "source", "local": None}
    if choice := trial.of(torch=keys):
        yield Remedy(f"set {_changed(trial, keys)}, to build it", choice)


def _versions(trial: Trial) -> list[str]:
    """Return the newest known patch of the requested minor release, then of the nearest ones."""
    asked = trial.settings.torch.version
    known = trial.knowledge.releases
    own = [one for minor, one in known.items() if numbers(minor) == numbers(asked)]
    return [one.patch for one in (*own, *nearest(trial.knowledge, asked))]


def _changed(trial: Trial, keys: Mapping[str, str | None]) -> str:
    """Format the changed keys: `torch.index: auto and torch.version: "2.15.0"`."""
    asked = trial.settings.torch
    texts = {key: value for key, value in keys.items() if getattr(asked, key) != value}
    return " and ".join(
        f"torch.{key}: {json.dumps(value) if not value or value[0].isdigit() else value}"
        for key, value in texts.items()
    )


def _meant(settings: Settings) -> Strategy:
    """Nobody is sent to hours of compiling who asked for a torch only."""
    return "source" if settings.torch.strategy == "source" else "prebuilt"


def _looked_at(trial: Trial, choice: Choice) -> bool:
    if choice.strategy != "prebuilt":
        return True
    host = trial.host
    wheel = wheel_for(
        trial.knowledge, choice.torch, choice.targets, host.system, host.machine, choice.cuda
    )
    return wheel is not None and wheel.verified


def _take(version: str, choice: Choice, more: dict[str, str]) -> str:
    also = " with toolkit.version: auto" if more else ""
    why = choice.strategy_why
    if choice.strategy == "source":
        why = f"it builds with CUDA {choice.cuda}" if choice.cuda else "it builds for the CPU"
    return f"take torch {version}{also}: {why}"
