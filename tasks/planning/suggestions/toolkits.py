"""Another CUDA toolkit: one that can be had here, one to install, or another in toolkit.path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from tasks.core.errors import TorchyardError
from tasks.core.model import Host, InstalledToolkit
from tasks.core.resolution import Resolution
from tasks.knowledge import Knowledge
from tasks.knowledge.toolkits import list_capable_toolkits
from tasks.planning.suggestions.trial import Suggestion, WhatIf
from tasks.planning.targets import find_targets
from tasks.planning.toolkit import CUDA_ARCHIVE_URL

ToolkitKeys = dict[str, str]
_ANY_FOLDER = "."  # any folder: which one a person will name is not known


def suggest_toolkits(trial: WhatIf) -> Iterator[Suggestion]:
    """The one that `auto` finds, one that can be had here, and last one to be installed."""
    here = list(_suggest_available_toolkits(trial, _list_toolkit_versions(trial)))
    yield from (remedy for remedy in here if remedy.resolution.strategy != "source")
    yield from here
    yield from suggest_toolkit_install(trial)


def suggest_toolkit_install(trial: WhatIf) -> Iterator[Suggestion]:
    """One to install: with the settings as they are, whichever toolkit that takes; else with one
    change more. Not where toolkit.path says which one is meant.
    """
    if trial.settings.toolkit.provider == "path":
        return
    every = trial.add_all_toolkits().resolve_with()
    meant = every.toolkit.version if every else ""  # what the refusal says is needed
    kits = [cuda for cuda in _list_toolkit_versions(trial) if cuda != "auto"]
    kits.sort(key=lambda cuda: cuda != meant)
    tries = [(cuda, keys) for keys in _list_provider_changes(trial, {}, "system") for cuda in kits]
    for cuda, keys in [*tries, *((cuda, {"version": cuda}) for cuda in kits)]:
        choice = trial.resolve_with(_add_host_toolkit(trial.host, cuda), toolkit=keys)
        if choice and choice.toolkit.version == cuda:
            also = f" and write {_format_toolkit_keys(keys)}" if keys else ""
            named = _format_path_alternative(trial, cuda, keys, choice)
            yield Suggestion(f"install CUDA {cuda} ({CUDA_ARCHIVE_URL}){also}{named}", choice)


def suggest_path_toolkits(trial: WhatIf) -> Iterator[Suggestion]:
    """With provider path: what the toolkit there can do, and after it another one there."""
    yield from _suggest_torch_for_path(trial)
    yield from suggest_other_path_toolkits(trial)


def _suggest_torch_for_path(trial: WhatIf) -> Iterator[Suggestion]:
    """With provider path: the torch that suits the toolkit there."""
    if trial.settings.toolkit.provider != "path":
        return
    for kit in (found for found in trial.host.toolkits if found.asked):
        keys = {"version": kit.release}
        if choice := trial.resolve_with(toolkit=keys):
            yield Suggestion(
                f"{_format_toolkit_keys(keys)}, which is in toolkit.path: {_describe_torch(choice)}",
                choice,
            )


def suggest_other_path_toolkits(trial: WhatIf) -> Iterator[Suggestion]:
    """With provider path: which other toolkits would do there; one that means a build only where no
    wheel is to be had.
    """
    if trial.settings.toolkit.provider != "path":
        return
    fitting = {
        cuda: choice
        for cuda in _list_toolkit_versions(trial)
        if cuda != "auto"
        and (choice := trial.resolve_with(_add_host_toolkit(trial.host, cuda, asked=True)))
        and choice.toolkit.version == cuda
    }
    quick = {cuda: choice for cuda, choice in fitting.items() if choice.strategy != "source"}
    if best := quick or fitting:
        yield Suggestion(
            f"name {_format_cuda_range(trial.knowledge, best)} in toolkit.path",
            next(iter(best.values())),
        )


def _list_toolkit_versions(trial: WhatIf) -> list[str]:
    """What toolkit.version could be for these targets, the one that was asked for first."""
    ours = trial.settings.toolkit.version
    try:
        targets, _ = find_targets(trial.settings, trial.host, trial.knowledge)
    except TorchyardError:
        return []
    order = sorted(list_capable_toolkits(trial.knowledge, targets), key=lambda cuda: cuda != ours)
    return order if ours == "auto" else ["auto", *order]


def _suggest_available_toolkits(trial: WhatIf, order: Iterable[str]) -> Iterator[Suggestion]:
    changes: list[ToolkitKeys] = [{"version": cuda} for cuda in order]
    if changes and trial.settings.toolkit.provider == "path":
        changes = [{}, {"version": "auto"}]  # toolkit.path is kept but for the torch's own toolkit
    for change in changes:
        for keys in _list_provider_changes(trial, change, "auto"):
            choice = trial.resolve_with(toolkit=keys)
            if choice and choice.toolkit.provider not in {"none", "path"}:
                yield Suggestion(f"{_format_toolkit_keys(keys)} ({choice.toolkit.why})", choice)


def _add_host_toolkit(host: Host, cuda: str, *, asked: bool = False) -> Host:
    """That host with one toolkit more, `asked` being the one in toolkit.path."""
    there = InstalledToolkit(_ANY_FOLDER, f"{cuda}.0", asked)
    kept = tuple(kit for kit in host.toolkits if not (asked and kit.asked))
    return replace(host, toolkits=(there, *kept))


def _format_path_alternative(
    trial: WhatIf, cuda: str, keys: ToolkitKeys, choice: Resolution
) -> str:
    """That toolkit.path does as well, where it leads to the same; and with which provider."""
    there = _add_host_toolkit(trial.host, cuda, asked=True)
    kept = {name: value for name, value in keys.items() if name != "provider"}
    for more, also in (({}, ""), ({"provider": "path"}, " and toolkit.provider: path")):
        other = trial.resolve_with(there, toolkit={**kept, **more, "path": _ANY_FOLDER})
        if other and _is_same_resolution(other, choice):
            return f", or name it with toolkit.path{also}"
    return ""


def _is_same_resolution(one: Resolution, other: Resolution) -> bool:
    return (one.strategy, one.torch, one.cuda, one.toolkit.version) == (
        *(other.strategy, other.torch, other.cuda, other.toolkit.version),
    )


def _describe_torch(choice: Resolution) -> str:
    if choice.strategy == "source":
        return f"torch {choice.torch} is built with it"
    return choice.strategy_why


def _format_cuda_range(knowledge: Knowledge, able: Mapping[str, Resolution]) -> str:
    """`CUDA 12.0 to 12.9`. A CUDA release that is newer than the facts was not tried."""
    order = [cuda for cuda in knowledge.toolkits if cuda in able]
    known = list(knowledge.toolkits)
    between = known[known.index(order[0]) : known.index(order[-1]) + 1]
    if len(order) == 1:
        return f"CUDA {order[0]}"
    if between != order:
        return f"CUDA {', '.join(order[:-1])} or {order[-1]}"
    return f"CUDA {order[0]} to {order[-1]}"


def _list_provider_changes(trial: WhatIf, keys: ToolkitKeys, other: str) -> list[ToolkitKeys]:
    """The same change with the provider as it is, and, where that would not look there, another."""
    fitting = {"auto": {"auto"}, "system": {"auto", "system"}}[other]
    as_it_is = trial.settings.toolkit.provider in fitting
    return [keys] if as_it_is else [keys, {**keys, "provider": other}]


def _format_toolkit_keys(keys: Mapping[str, str]) -> str:
    return " and ".join(
        f"toolkit.{key}: {value}" if value.isalpha() else f'toolkit.{key}: "{value}"'
        for key, value in keys.items()
    )
