"""What would help where a choice cannot be: other settings, each tried before it is named. Pure.

Nothing is advised that the facts know to be bad.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tasks.choice import Choice
from tasks.decide_targets import find_targets
from tasks.decide_toolkit import ARCHIVE
from tasks.decide_torch import wants_source
from tasks.errors import BuildError
from tasks.knowledge import Knowledge
from tasks.knowledge.combinations import Combination, judge
from tasks.knowledge.minimums import below
from tasks.knowledge.releases import nearest, release, wheel_for
from tasks.knowledge.toolkits import known_to_build, toolkits_for
from tasks.model import Host, Strategy, ToolkitFound
from tasks.settings.schema import Settings

Attempt = Callable[[Settings, Host, Knowledge], Choice]
_AUTO = {"version": "auto"}


@dataclass(frozen=True)
class Remedy:
    """A change that was tried: `todo` in words, and the choice that it leads to."""

    todo: str
    choice: Choice


def advice(settings: Settings, host: Host, knowledge: Knowledge, attempt: Attempt) -> str:
    """One sentence with every remedy, empty where nothing is known to help."""
    return "; or ".join(remedy.todo for remedy in remedies(settings, host, knowledge, attempt))


def remedies(
    settings: Settings, host: Host, knowledge: Knowledge, attempt: Attempt
) -> tuple[Remedy, ...]:
    """At most one of a kind: another Python, toolkit, torch, strategy, several profiles, or fewer
    targets.
    """
    trial = _Trial(settings, host, knowledge, attempt)
    kinds = (_pythons, _toolkits, _torches, _strategies, _profiles)
    found = [next(kind(trial), None) for kind in kinds]
    last = found if any(found) else [next(_torches_and_toolkits(trial), None)]
    if settings.target.gpus == "auto" or not any(last):
        last = [*last, next(_fewer(trial), None)]
    return tuple(remedy for remedy in last if remedy)


@dataclass(frozen=True)
class _Trial:
    settings: Settings
    host: Host
    knowledge: Knowledge
    attempt: Attempt

    def of(self, host: Host | None = None, **sections: dict[str, Any]) -> Choice | None:
        """The choice with these keys changed, or on that host; None where it cannot be, is known to
        be bad, or is a build that nobody is known to have made.
        """
        changed = {
            name: getattr(self.settings, name).model_copy(update=keys)
            for name, keys in sections.items()
        }
        asked = self.settings.model_copy(update=changed)
        try:
            choice = self.attempt(asked, host or self.host, self.knowledge)
        except BuildError:
            return None
        bad = known_bad(self.knowledge, choice, extensions=bool(self.settings.extensions))
        return choice if self._known(choice) and not bad else None

    def _known(self, choice: Choice) -> bool:
        """Whether a build is one with a toolkit that the release is published with, or with the one
        that was asked for.
        """
        if choice.strategy != "source" or choice.cuda in {None, self.settings.toolkit.version}:
            return True
        try:
            found = release(self.knowledge, choice.torch)
        except BuildError:
            return False
        return choice.cuda in known_to_build(self.knowledge, found, choice.targets, choice.system)


def known_bad(knowledge: Knowledge, choice: Choice, *, extensions: bool) -> bool:
    """Whether what would be built, with extensions or without, is known not to work."""
    combination = Combination(
        system=choice.system,
        cuda=choice.toolkit.version or None,
        torch=choice.torch,
        archs=choice.targets,
        strategy=choice.strategy,
        python=choice.python.version,
        extensions=extensions,
    )
    found = (*judge(knowledge, combination), *below(knowledge, combination))
    return any(finding.level == "error" for finding in found)


def _pythons(trial: _Trial) -> Iterator[Remedy]:
    try:
        known = release(trial.knowledge, trial.settings.torch.version)
    except BuildError:
        return
    for version in dict.fromkeys(reversed(known.python)):
        python = replace(trial.host.python, version=version, torch=None)
        if choice := trial.of(replace(trial.host, python=python)):
            yield Remedy(f'set python: "{version}"', choice)


def _torches(trial: _Trial) -> Iterator[Remedy]:
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


def _meant(settings: Settings) -> Strategy:
    """Nobody is sent to hours of compiling who asked for a torch only."""
    return "source" if settings.torch.strategy == "source" else "prebuilt"


def _looked_at(trial: _Trial, choice: Choice) -> bool:
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


def _toolkits(trial: _Trial) -> Iterator[Remedy]:
    """The one that `auto` finds, one that can be had here, and last one to be installed."""
    if trial.settings.toolkit.provider == "path":
        return
    ours = trial.settings.toolkit.version
    targets, _ = find_targets(trial.settings, trial.host, trial.knowledge)
    order = sorted(toolkits_for(trial.knowledge, targets), key=lambda cuda: cuda != ours)
    if ours != "auto":
        order = ["auto", *order]
    here = list(_here(trial, order))
    yield from (remedy for remedy in here if remedy.choice.strategy != "source")
    yield from here
    yield from _installed(trial, order)


def _here(trial: _Trial, order: Iterable[str]) -> Iterator[Remedy]:
    for cuda in order:
        for keys in _with_provider(trial, {"version": cuda}, "auto"):
            choice = trial.of(toolkit=keys)
            if choice and choice.toolkit.provider != "none":
                yield Remedy(f"{_written(keys)} ({choice.toolkit.why})", choice)


def _installed(trial: _Trial, order: Iterable[str]) -> Iterator[Remedy]:
    """With the settings as they are, whichever toolkit that takes; else with one change more."""
    kits = [cuda for cuda in order if cuda != "auto"]
    tries = [(cuda, keys) for keys in _with_provider(trial, {}, "system") for cuda in kits]
    for cuda, keys in [*tries, *((cuda, {"version": cuda}) for cuda in kits)]:
        there = ToolkitFound("", f"{cuda}.0")
        host = replace(trial.host, toolkits=(*trial.host.toolkits, there))
        choice = trial.of(host, toolkit=keys)
        if choice and choice.toolkit.version == cuda:
            also = f" and write {_written(keys)}" if keys else ""
            what = f"install CUDA {cuda} ({ARCHIVE}){also}, or name it with toolkit.path"
            yield Remedy(what, choice)


def _torches_and_toolkits(trial: _Trial) -> Iterator[Remedy]:
    """Where neither alone helps: another release, with its toolkit installed."""
    every = tuple(ToolkitFound("", f"{cuda}.0") for cuda in trial.knowledge.toolkits)
    having = replace(trial, host=replace(trial.host, toolkits=every))
    for remedy in _torches(having):
        cuda = remedy.choice.toolkit.version
        yield replace(remedy, todo=f"install CUDA {cuda} ({ARCHIVE}) and {remedy.todo}")


def _with_provider(trial: _Trial, keys: dict[str, str], other: str) -> list[dict[str, str]]:
    """The same change with the provider as it is, and, where that would not look there, another."""
    fitting = {"auto": {"auto"}, "system": {"auto", "system"}}[other]
    as_it_is = trial.settings.toolkit.provider in fitting
    return [keys] if as_it_is else [keys, {**keys, "provider": other}]


def _written(keys: Mapping[str, str]) -> str:
    return " and ".join(
        f"toolkit.{key}: {value}" if value.isalpha() else f'toolkit.{key}: "{value}"'
        for key, value in keys.items()
    )


def _strategies(trial: _Trial) -> Iterator[Remedy]:
    if trial.settings.torch.strategy != "prebuilt":
        return
    choice = trial.of(torch={"strategy": "source"})
    if choice:
        yield Remedy("torch.strategy: source, to build it", choice)


def _profiles(trial: _Trial) -> Iterator[Remedy]:
    apart = _apart(trial)
    if len(apart) > 1 and all(apart.values()):
        named = " and ".join(apart)
        first = next(choice for choice in apart.values() if choice)
        yield Remedy(f"build for {named} in {len(apart)} profiles", first)


def _fewer(trial: _Trial) -> Iterator[Remedy]:
    """Without those that stand in the way; last, the newest card alone."""
    apart = _apart(trial)
    working = {name: choice for name, choice in apart.items() if choice}
    newest = max(working, key=lambda name: working[name].targets, default="")
    for kept in (tuple(working), (newest,)):
        if not working or len(kept) == len(apart):
            continue
        if choice := trial.of(target={"gpus": kept}):
            left = ", ".join(name for name in apart if name not in kept)
            named = ", ".join(f'"{name}"' for name in kept)
            yield Remedy(f"write target.gpus: [{named}], which leaves out {left}", choice)


def _apart(trial: _Trial) -> dict[str, Choice | None]:
    """Each target alone: its choice, None where there is none."""
    asked = trial.settings.target.gpus
    gpus = asked if asked != "auto" else tuple({gpu.capability for gpu in trial.host.gpus})
    return {name: trial.of(target={"gpus": (name,)}) for name in sorted(gpus)}
