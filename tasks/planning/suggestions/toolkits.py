"""Another CUDA toolkit: one that can be had here, one to install, or another in toolkit.path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from tasks.core.errors import BuildError
from tasks.core.model import Host, ToolkitFound
from tasks.core.resolution import Choice
from tasks.knowledge import Knowledge
from tasks.knowledge.toolkits import toolkits_for
from tasks.planning.suggestions.trial import Remedy, Trial
from tasks.planning.targets import find_targets
from tasks.planning.toolkit import ARCHIVE

Keys = dict[str, str]
_HERE = "."  # any folder: which one a person will name is not known


def toolkits(trial: Trial) -> Iterator[Remedy]:
    """The one that `auto` finds, one that can be had here, and last one to be installed."""
    here = list(_here(trial, _versions(trial)))
    yield from (remedy for remedy in here if remedy.choice.strategy != "source")
    yield from here
    yield from installed(trial)


def installed(trial: Trial) -> Iterator[Remedy]:
    """One to install: with the settings as they are, whichever toolkit that takes; else with one
    change more. Not where toolkit.path says which one is meant.
    """
    if trial.settings.toolkit.provider == "path":
        return
    every = trial.with_every_toolkit().of()
    meant = every.toolkit.version if every else ""  # what the refusal says is needed
    kits = [cuda for cuda in _versions(trial) if cuda != "auto"]
    kits.sort(key=lambda cuda: cuda != meant)
    tries = [(cuda, keys) for keys in _with_provider(trial, {}, "system") for cuda in kits]
    for cuda, keys in [*tries, *((cuda, {"version": cuda}) for cuda in kits)]:
        choice = trial.of(_having(trial.host, cuda), toolkit=keys)
        if choice and choice.toolkit.version == cuda:
            also = f" and write {_written(keys)}" if keys else ""
            named = _named(trial, cuda, keys, choice)
            yield Remedy(f"install CUDA {cuda} ({ARCHIVE}){also}{named}", choice)


def own_toolkits(trial: Trial) -> Iterator[Remedy]:
    """With provider path: what the toolkit there can do, and after it another one there."""
    yield from _suited_to_own(trial)
    yield from other_own(trial)


def _suited_to_own(trial: Trial) -> Iterator[Remedy]:
    """With provider path: the torch that suits the toolkit there."""
    if trial.settings.toolkit.provider != "path":
        return
    for kit in (found for found in trial.host.toolkits if found.asked):
        keys = {"version": kit.release}
        if choice := trial.of(toolkit=keys):
            yield Remedy(f"{_written(keys)}, which is in toolkit.path: {_torch(choice)}", choice)


def other_own(trial: Trial) -> Iterator[Remedy]:
    """With provider path: which other toolkits would do there; one that means a build only where no
    wheel is to be had.
    """
    if trial.settings.toolkit.provider != "path":
        return
    fitting = {
        cuda: choice
        for cuda in _versions(trial)
        if cuda != "auto"
        and (choice := trial.of(_having(trial.host, cuda, asked=True)))
        and choice.toolkit.version == cuda
    }
    quick = {cuda: choice for cuda, choice in fitting.items() if choice.strategy != "source"}
    if best := quick or fitting:
        yield Remedy(
            f"name {_span(trial.knowledge, best)} in toolkit.path", next(iter(best.values()))
        )


def _versions(trial: Trial) -> list[str]:
    """What toolkit.version could be for these targets, the one that was asked for first."""
    ours = trial.settings.toolkit.version
    try:
        targets, _ = find_targets(trial.settings, trial.host, trial.knowledge)
    except BuildError:
        return []
    order = sorted(toolkits_for(trial.knowledge, targets), key=lambda cuda: cuda != ours)
    return order if ours == "auto" else ["auto", *order]


def _here(trial: Trial, order: Iterable[str]) -> Iterator[Remedy]:
    changes: list[Keys] = [{"version": cuda} for cuda in order]
    if changes and trial.settings.toolkit.provider == "path":
        changes = [{}, {"version": "auto"}]  # toolkit.path is kept but for the torch's own toolkit
    for change in changes:
        for keys in _with_provider(trial, change, "auto"):
            choice = trial.of(toolkit=keys)
            if choice and choice.toolkit.provider not in {"none", "path"}:
                yield Remedy(f"{_written(keys)} ({choice.toolkit.why})", choice)


def _having(host: Host, cuda: str, *, asked: bool = False) -> Host:
    """That host with one toolkit more, `asked` being the one in toolkit.path."""
    there = ToolkitFound(_HERE, f"{cuda}.0", asked)
    kept = tuple(kit for kit in host.toolkits if not (asked and kit.asked))
    return replace(host, toolkits=(there, *kept))


def _named(trial: Trial, cuda: str, keys: Keys, choice: Choice) -> str:
    """That toolkit.path does as well, where it leads to the same; and with which provider."""
    there = _having(trial.host, cuda, asked=True)
    kept = {name: value for name, value in keys.items() if name != "provider"}
    for more, also in (({}, ""), ({"provider": "path"}, " and toolkit.provider: path")):
        other = trial.of(there, toolkit={**kept, **more, "path": _HERE})
        if other and _same(other, choice):
            return f", or name it with toolkit.path{also}"
    return ""


def _same(one: Choice, other: Choice) -> bool:
    return (one.strategy, one.torch, one.cuda, one.toolkit.version) == (
        *(other.strategy, other.torch, other.cuda, other.toolkit.version),
    )


def _torch(choice: Choice) -> str:
    if choice.strategy == "source":
        return f"torch {choice.torch} is built with it"
    return choice.strategy_why


def _span(knowledge: Knowledge, able: Mapping[str, Choice]) -> str:
    """`CUDA 12.0 to 12.9`. A CUDA release that is newer than the facts was not tried."""
    order = [cuda for cuda in knowledge.toolkits if cuda in able]
    known = list(knowledge.toolkits)
    between = known[known.index(order[0]) : known.index(order[-1]) + 1]
    if len(order) == 1:
        return f"CUDA {order[0]}"
    if between != order:
        return f"CUDA {', '.join(order[:-1])} or {order[-1]}"
    return f"CUDA {order[0]} to {order[-1]}"


def _with_provider(trial: Trial, keys: Keys, other: str) -> list[Keys]:
    """The same change with the provider as it is, and, where that would not look there, another."""
    fitting = {"auto": {"auto"}, "system": {"auto", "system"}}[other]
    as_it_is = trial.settings.toolkit.provider in fitting
    return [keys] if as_it_is else [keys, {**keys, "provider": other}]


def _written(keys: Mapping[str, str]) -> str:
    return " and ".join(
        f"toolkit.{key}: {value}" if value.isalpha() else f'toolkit.{key}: "{value}"'
        for key, value in keys.items()
    )
