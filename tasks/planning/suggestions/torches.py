"""Another release of torch, or another way to it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

from tasks.core.model import Strategy
from tasks.core.resolution import Resolution
from tasks.knowledge.releases import list_nearest_releases, select_official_wheel
from tasks.knowledge.versions import parse_major_minor
from tasks.planning.suggestions.trial import Suggestion, WhatIf
from tasks.planning.toolkit import CUDA_ARCHIVE_URL
from tasks.planning.torch import find_source_reason
from tasks.settings.schema import Settings

_AUTO_TOOLKIT = {"version": "auto"}


def suggest_releases(trial: WhatIf) -> Iterator[Suggestion]:
    """The nearest release, newer before older, and one whose wheel was looked at before one that is
    known by inference. Not where a tree or an index of one's own is meant.
    """
    settings = trial.settings
    if settings.torch.strategy == "existing" or find_source_reason(settings):
        return
    if settings.torch.index != "auto":
        return
    kept = settings.toolkit.version == "auto" or trial.resolve_with(toolkit=_AUTO_TOOLKIT)
    unsure = []
    for other in list_nearest_releases(trial.knowledge, settings.torch.version):
        for more in ({},) if kept else ({}, _AUTO_TOOLKIT):
            choice = trial.resolve_with(torch={"version": other.patch}, toolkit=more)
            if choice and choice.strategy == _find_intended_strategy(settings):
                remedy = Suggestion(_format_release_hint(other.patch, choice, more), choice)
                if _has_verified_wheel(trial, choice):
                    yield remedy
                unsure.append(remedy)
    yield from unsure


def suggest_releases_and_toolkits(trial: WhatIf) -> Iterator[Suggestion]:
    """Where neither alone helps: another release, with its toolkit installed."""
    for remedy in suggest_releases(trial.add_all_toolkits()):
        cuda = remedy.resolution.toolkit.version
        yield replace(remedy, hint=f"install CUDA {cuda} ({CUDA_ARCHIVE_URL}) and {remedy.hint}")


def suggest_source_strategy(trial: WhatIf) -> Iterator[Suggestion]:
    """A build, where a wheel was asked for."""
    if trial.settings.torch.strategy != "prebuilt":
        return
    choice = trial.resolve_with(torch={"strategy": "source"})
    if choice:
        yield Suggestion("torch.strategy: source, to build it", choice)


def suggest_other_wheels(trial: WhatIf) -> Iterator[Suggestion]:
    """Yield official wheels that are known to hold code for every target, other than the current
    one: of the same minor release first, then of the nearest.
    """
    now = trial.resolve_with()
    for version in _list_release_patches(trial):
        keys = {"index": "auto", "version": version, "local": None, "sha256": None}
        choice = trial.resolve_with(torch=keys)
        if (
            choice is None
            or choice.strategy != "prebuilt"
            or not _has_verified_wheel(trial, choice)
        ):
            continue
        if not now or (now.torch, now.index) != (choice.torch, choice.index):
            yield Suggestion(
                f"set {_format_changed_keys(trial, keys)}: {choice.strategy_why}", choice
            )


def suggest_source_build(trial: WhatIf) -> Iterator[Suggestion]:
    """Yield a source build in place of the current wheel."""
    keys = {"strategy": "source", "local": None}
    if choice := trial.resolve_with(torch=keys):
        yield Suggestion(f"set {_format_changed_keys(trial, keys)}, to build it", choice)


def _list_release_patches(trial: WhatIf) -> list[str]:
    """Return the newest known patch of the requested minor release, then of the nearest ones."""
    asked = trial.settings.torch.version
    known = trial.knowledge.releases
    own = [
        one for minor, one in known.items() if parse_major_minor(minor) == parse_major_minor(asked)
    ]
    return [one.patch for one in (*own, *list_nearest_releases(trial.knowledge, asked))]


def _format_changed_keys(trial: WhatIf, keys: Mapping[str, str | None]) -> str:
    """Format the changed keys: `torch.index: auto and torch.version: "2.15.0"`."""
    asked = trial.settings.torch
    texts = {key: value for key, value in keys.items() if getattr(asked, key) != value}
    return " and ".join(
        f"torch.{key}: {json.dumps(value) if not value or value[0].isdigit() else value}"
        for key, value in texts.items()
    )


def _find_intended_strategy(settings: Settings) -> Strategy:
    """Nobody is sent to hours of compiling who asked for a torch only."""
    return "source" if settings.torch.strategy == "source" else "prebuilt"


def _has_verified_wheel(trial: WhatIf, choice: Resolution) -> bool:
    if choice.strategy != "prebuilt":
        return True
    host = trial.host
    wheel = select_official_wheel(
        trial.knowledge, choice.torch, choice.targets, host.system, host.machine, choice.cuda
    )
    return wheel is not None and wheel.verified


def _format_release_hint(version: str, choice: Resolution, more: dict[str, str]) -> str:
    also = " with toolkit.version: auto" if more else ""
    why = choice.strategy_why
    if choice.strategy == "source":
        why = f"it builds with CUDA {choice.cuda}" if choice.cuda else "it builds for the CPU"
    return f"take torch {version}{also}: {why}"
