"""Resolve with changed settings or on a changed host, and list the single changes that help."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tasks.core.errors import TorchyardError
from tasks.core.model import Host, InstalledToolkit, Strategy
from tasks.core.resolution import Resolution
from tasks.knowledge import Knowledge
from tasks.knowledge.cuda_toolkits import list_capable_toolkits, list_published_toolkits
from tasks.knowledge.facts import Release
from tasks.knowledge.known_problems import find_known_bad
from tasks.knowledge.minimum_versions import find_too_old_versions
from tasks.knowledge.torch_releases import (
    find_release,
    find_wheel_pythons,
    list_nearest_releases,
    select_official_wheel,
)
from tasks.knowledge.versions import parse_major_minor
from tasks.planning.target_resolution import find_targets
from tasks.planning.toolkit_resolution import CUDA_ARCHIVE_URL
from tasks.planning.torch_candidates import find_source_reason
from tasks.settings.schema import Settings

ResolveFunction = Callable[[Settings, Host, Knowledge], Resolution]


@dataclass(frozen=True)
class Suggestion:
    """A change that was tried: `hint` describes it, `resolution` is its result."""

    hint: str
    resolution: Resolution


@dataclass(frozen=True)
class WhatIf:
    """The requested settings, the host, and the function that resolves them."""

    settings: Settings
    host: Host
    knowledge: Knowledge
    attempt: ResolveFunction

    def resolve_with(
        self, host: Host | None = None, **sections: dict[str, Any]
    ) -> Resolution | None:
        """Return the resolution with these keys changed, or on that host.

        None if it fails, is known to be bad, or is a build with a toolkit that is not known to
        work.
        """
        changed = {
            name: getattr(self.settings, name).model_copy(update=keys)
            for name, keys in sections.items()
        }
        asked = self.settings.model_copy(update=changed)
        there = host or self.host
        try:
            choice = self.attempt(asked, there, self.knowledge)
        except TorchyardError:
            return None
        bad = is_known_bad(self.knowledge, choice, there)
        return choice if self._is_known_build(choice) and not bad else None

    def add_all_toolkits(self) -> WhatIf:
        """Return the same on a host that has every known toolkit."""
        every = tuple(InstalledToolkit("", f"{cuda}.0") for cuda in self.knowledge.toolkits)
        return replace(self, host=replace(self.host, toolkits=every))

    def _is_known_build(self, choice: Resolution) -> bool:
        """Return True if a build uses the requested toolkit or one that torch is published with.

        True also for other strategies and for the CPU.
        """
        if choice.strategy != "source" or choice.cuda in {None, self.settings.toolkit.version}:
            return True
        try:
            found = find_release(self.knowledge, choice.torch)
        except TorchyardError:
            return False
        return choice.cuda in list_published_toolkits(
            self.knowledge, found, choice.targets, choice.system
        )


def is_known_bad(knowledge: Knowledge, choice: Resolution, host: Host) -> bool:
    """Return True if the build is known to fail.

    The toolkit is compared by its release: a toolkit that will be installed has no full version
    yet.
    """
    combination = replace(choice.build_combination(host), cuda=choice.toolkit.version or None)
    found = (
        *find_known_bad(knowledge, combination),
        *find_too_old_versions(knowledge, combination),
    )
    return any(finding.level == "error" for finding in found)


ToolkitKeys = dict[str, str]
_ANY_FOLDER = "."  # a placeholder: the folder that the user will name is not known


def suggest_toolkits(trial: WhatIf) -> Iterator[Suggestion]:
    """Yield the toolkits that `auto` finds, other available ones, and last one to install."""
    here = list(_suggest_available_toolkits(trial, _list_toolkit_versions(trial)))
    yield from (remedy for remedy in here if remedy.resolution.strategy != "source")
    yield from here
    yield from suggest_toolkit_install(trial)


def suggest_toolkit_install(trial: WhatIf) -> Iterator[Suggestion]:
    """Yield a toolkit to install: first with the current settings, then with one more change.

    Nothing with provider path: toolkit.path names the toolkit.
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
    """Yield, with provider path, a torch for the toolkit in toolkit.path, then other toolkits."""
    yield from _suggest_torch_for_path(trial)
    yield from suggest_other_path_toolkits(trial)


def _suggest_torch_for_path(trial: WhatIf) -> Iterator[Suggestion]:
    """Yield, with provider path, the torch that suits the toolkit in toolkit.path."""
    if trial.settings.toolkit.provider != "path":
        return
    for kit in (found for found in trial.host.toolkits if found.asked):
        keys = {"version": kit.release}
        if choice := trial.resolve_with(toolkit=keys):
            yield Suggestion(
                f"{_format_toolkit_keys(keys)}, which is in toolkit.path: "
                f"{_describe_torch(choice)}",
                choice,
            )


def suggest_other_path_toolkits(trial: WhatIf) -> Iterator[Suggestion]:
    """Yield, with provider path, the other toolkits that work there.

    One that requires a source build is included only if none has a wheel.
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
    """Return the values for toolkit.version for these targets, the requested one first."""
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
        changes = [{}, {"version": "auto"}]  # toolkit.path stays unless torch's toolkit is found
    for change in changes:
        for keys in _list_provider_changes(trial, change, "auto"):
            choice = trial.resolve_with(toolkit=keys)
            if choice and choice.toolkit.provider not in {"none", "path"}:
                yield Suggestion(f"{_format_toolkit_keys(keys)} ({choice.toolkit.why})", choice)


def _add_host_toolkit(host: Host, cuda: str, *, asked: bool = False) -> Host:
    """Return the host with one more toolkit; with `asked`, it replaces the one in toolkit.path."""
    there = InstalledToolkit(_ANY_FOLDER, f"{cuda}.0", asked)
    kept = tuple(kit for kit in host.toolkits if not (asked and kit.asked))
    return replace(host, toolkits=(there, *kept))


def _format_path_alternative(
    trial: WhatIf, cuda: str, keys: ToolkitKeys, choice: Resolution
) -> str:
    """Suggest toolkit.path as an alternative, with the provider it needs.

    Return "" if the result would differ.
    """
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
    """Format a range of toolkits, such as `CUDA 12.0 to 12.9`.

    CUDA releases that are newer than the facts are not tried.
    """
    order = [cuda for cuda in knowledge.toolkits if cuda in able]
    known = list(knowledge.toolkits)
    between = known[known.index(order[0]) : known.index(order[-1]) + 1]
    if len(order) == 1:
        return f"CUDA {order[0]}"
    if between != order:
        return f"CUDA {', '.join(order[:-1])} or {order[-1]}"
    return f"CUDA {order[0]} to {order[-1]}"


def _list_provider_changes(trial: WhatIf, keys: ToolkitKeys, other: str) -> list[ToolkitKeys]:
    """Return the change with the current provider, then with `other`.

    The second is left out if the current provider already looks there.
    """
    fitting = {"auto": {"auto"}, "system": {"auto", "system"}}[other]
    as_it_is = trial.settings.toolkit.provider in fitting
    return [keys] if as_it_is else [keys, {**keys, "provider": other}]


def _format_toolkit_keys(keys: Mapping[str, str]) -> str:
    return " and ".join(
        f"toolkit.{key}: {value}" if value.isalpha() else f'toolkit.{key}: "{value}"'
        for key, value in keys.items()
    )


_AUTO_TOOLKIT = {"version": "auto"}


def suggest_releases(trial: WhatIf) -> Iterator[Suggestion]:
    """Yield the nearest releases, newer before older, verified wheels before those only inferred.

    Nothing if the settings require the existing torch, a source tree or another index.
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
    """Yield another release with its toolkit to install, if neither helps separately."""
    for remedy in suggest_releases(trial.add_all_toolkits()):
        cuda = remedy.resolution.toolkit.version
        yield replace(remedy, hint=f"install CUDA {cuda} ({CUDA_ARCHIVE_URL}) and {remedy.hint}")


def suggest_source_strategy(trial: WhatIf) -> Iterator[Suggestion]:
    """Yield a source build if the settings require a wheel."""
    if trial.settings.torch.strategy != "prebuilt":
        return
    choice = trial.resolve_with(torch={"strategy": "source"})
    if choice:
        yield Suggestion("torch.strategy: source, to build it", choice)


def suggest_other_wheels(trial: WhatIf) -> Iterator[Suggestion]:
    """Yield other official wheels that are known to contain code for every target.

    Those of the same minor release come first, then those of the nearest.
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
    """Yield a source build instead of the current wheel."""
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
    """Return the strategy to suggest: source only if it was requested.

    Compiling takes hours.
    """
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


def suggest_pythons(trial: WhatIf) -> Iterator[Suggestion]:
    """Yield the two ends of the release's Python range, the nearer one first.

    Other interpreters of this machine are not considered: finding them takes processes, and this
    module is pure.
    """
    found = _find_unsupported_release(trial)
    for version in list_fitting_pythons(trial, found) if found else ():
        python = replace(trial.host.python, version=version, torch=None)
        if choice := trial.resolve_with(replace(trial.host, python=python)):
            yield Suggestion(
                format_python_hint(version, into=bool(trial.settings.install.into)), choice
            )


def suggest_pythons_and_toolkits(trial: WhatIf) -> Iterator[Suggestion]:
    """Yield another Python with a toolkit to install, if neither helps separately."""
    for remedy in suggest_pythons(trial.add_all_toolkits()):
        cuda = remedy.resolution.toolkit.version
        yield replace(remedy, hint=f"{remedy.hint} and install CUDA {cuda} ({CUDA_ARCHIVE_URL})")


def format_python_hint(version: str, *, into: bool) -> str:
    """Return the hint to change to that Python.

    With install.into, that environment must change too: it has the current Python, and wheels for
    another cannot be installed there.
    """
    if into:
        return (
            f"make an environment of Python {version} (conda create -n NAME python={version}, or "
            f"uv venv --python {version} FOLDER) with what your project needs, and name its Python "
            "in install.into and python (doit init does both)"
        )
    return f'set python: "{version}" (uv python install {version} where it is not installed)'


def _find_unsupported_release(trial: WhatIf) -> Release | None:
    """Return the requested release if it is known and does not support this Python."""
    try:
        found = find_release(trial.knowledge, trial.settings.torch.version)
    except TorchyardError:
        return None
    return None if list_fitting_pythons(trial, found) == ("",) else found


def list_fitting_pythons(trial: WhatIf, found: Release) -> tuple[str, ...]:
    """Return the Pythons to try with that release, the nearest first.

    Return only "" if the current one fits.
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


def suggest_profiles(trial: WhatIf) -> Iterator[Suggestion]:
    """Yield a profile for each target, if each target can be built separately."""
    apart = _resolve_each_target(trial)
    if len(apart) > 1 and all(apart.values()):
        named = " and ".join(apart)
        first = next(choice for choice in apart.values() if choice)
        yield Suggestion(f"build for {named} in {len(apart)} profiles", first)


def suggest_fewer_targets(trial: WhatIf) -> Iterator[Suggestion]:
    """Yield the targets that can be built; last, only the newest one."""
    apart = _resolve_each_target(trial)
    working = {name: choice for name, choice in apart.items() if choice}
    newest = max(working, key=lambda name: working[name].targets, default="")
    for kept in (tuple(working), (newest,)):
        if not working or len(kept) == len(apart):
            continue
        if choice := trial.resolve_with(target={"gpus": kept}):
            left = ", ".join(name for name in apart if name not in kept)
            named = ", ".join(f'"{name}"' for name in kept)
            yield Suggestion(f"write target.gpus: [{named}], which leaves out {left}", choice)


def _resolve_each_target(trial: WhatIf) -> dict[str, Resolution | None]:
    """Resolve each target separately; None for a target that fails."""
    asked = trial.settings.target.gpus
    gpus = asked if asked != "auto" else tuple({gpu.capability for gpu in trial.host.gpus})
    return {name: trial.resolve_with(target={"gpus": (name,)}) for name in sorted(gpus)}
