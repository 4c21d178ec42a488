"""Resolve with changed settings or a changed host, and suggest the changes that help."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from msgspec import structs

from tasks.core.errors import TorchyardError
from tasks.core.model import Host, InstalledToolkit
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
from tasks.planning.target_resolution import CUDA_ARCHIVE_URL, find_targets
from tasks.planning.torch_candidates import find_source_reason
from tasks.settings.schema import Settings

ResolveFunction = Callable[[Settings, Host, Knowledge], Resolution]


@dataclass(frozen=True)
class Suggestion:
    """A change that works. `hint` tells the user what to change, `resolution` is the result."""

    hint: str
    resolution: Resolution


@dataclass(frozen=True)
class WhatIf:
    """The requested settings, the host, and `attempt`, the function that resolves both."""

    settings: Settings
    host: Host
    knowledge: Knowledge
    attempt: ResolveFunction

    def resolve_with(
        self, host: Host | None = None, **sections: dict[str, Any]
    ) -> Resolution | None:
        """Return the resolution with changed keys or another host, None if that does not work.

        A source build works only with the requested toolkit or one that PyTorch publishes with.
        """
        changed = {
            name: structs.replace(getattr(self.settings, name), **keys)
            for name, keys in sections.items()
        }
        settings, host = structs.replace(self.settings, **changed), host or self.host
        try:
            resolution = self.attempt(settings, host, self.knowledge)
            cuda = resolution.cuda if resolution.strategy == "source" else None
            if cuda not in {None, self.settings.toolkit.version}:
                release = find_release(self.knowledge, resolution.torch)
                platform = (resolution.targets, resolution.system)
                if cuda not in list_published_toolkits(self.knowledge, release, *platform):
                    return None
        except TorchyardError:
            return None
        return None if is_known_bad(self.knowledge, resolution, host) else resolution

    def add_all_toolkits(self) -> WhatIf:
        """Return a copy whose host has every known toolkit installed."""
        toolkits = tuple(InstalledToolkit("", f"{cuda}.0") for cuda in self.knowledge.toolkits)
        return replace(self, host=replace(self.host, toolkits=toolkits))


def is_known_bad(knowledge: Knowledge, choice: Resolution, host: Host) -> bool:
    """Return True if a build with this resolution is known to fail."""
    # Compare the CUDA release: a toolkit that will be installed has no full version yet
    combination = replace(choice.build_combination(host), cuda=choice.toolkit.version or None)
    bad = find_known_bad(knowledge, combination)
    findings = (*bad, *find_too_old_versions(knowledge, combination))
    return any(finding.level == "error" for finding in findings)


ToolkitKeys = dict[str, str]
_ANY_FOLDER = "."  # a placeholder for the folder that the user will set


def suggest_toolkits(trial: WhatIf) -> Iterator[Suggestion]:
    """Yield other available toolkits, without a source build first, then toolkits to install."""
    changes: list[ToolkitKeys] = [{"version": cuda} for cuda in _list_toolkit_versions(trial)]
    if changes and trial.settings.toolkit.provider == "path":
        changes = [{}, {"version": "auto"}]  # toolkit.path stays unless torch's toolkit is found
    available = [
        Suggestion(f"set {format_assignments(keys)} ({resolution.toolkit.why})", resolution)
        for change in changes
        for keys in _list_provider_changes(trial, change, "auto")
        if (resolution := trial.resolve_with(toolkit=keys))
        and resolution.toolkit.provider not in {"none", "path"}
    ]
    yield from (one for one in available if one.resolution.strategy != "source")
    yield from available
    yield from suggest_toolkit_install(trial)


def suggest_toolkit_install(trial: WhatIf) -> Iterator[Suggestion]:
    """Yield toolkits to install: with the current settings, then with one changed key."""
    if trial.settings.toolkit.provider == "path":
        return
    resolution = trial.add_all_toolkits().resolve_with()
    needed = resolution.toolkit.version if resolution else ""  # what the error message requires
    versions = [cuda for cuda in _list_toolkit_versions(trial) if cuda != "auto"]
    versions.sort(key=lambda cuda: cuda != needed)
    key_sets = _list_provider_changes(trial, {}, "system")
    changes = [(cuda, keys) for keys in key_sets for cuda in versions]
    for cuda, keys in [*changes, *((cuda, {"version": cuda}) for cuda in versions)]:
        result = trial.resolve_with(_add_host_toolkit(trial.host, cuda), toolkit=keys)
        if result and result.toolkit.version == cuda:
            extra_keys = f" and set {format_assignments(keys)}" if keys else ""
            alternative = _format_path_alternative(trial, cuda, keys, result)
            hint = f"install CUDA {cuda} ({CUDA_ARCHIVE_URL}){extra_keys}{alternative}"
            yield Suggestion(hint, result)


def suggest_path_toolkits(trial: WhatIf) -> Iterator[Suggestion]:
    """For provider path, yield a torch for the toolkit in toolkit.path, then other toolkits."""
    is_path = trial.settings.toolkit.provider == "path"
    for kit in (kit for kit in trial.host.toolkits if kit.asked and is_path):
        keys = {"version": kit.release}
        if resolution := trial.resolve_with(toolkit=keys):
            is_build = resolution.strategy == "source"
            built = f"torch {resolution.torch} is built with it"
            torch = built if is_build else resolution.strategy_why
            hint = f"set {format_assignments(keys)}, the toolkit in toolkit.path: {torch}"
            yield Suggestion(hint, resolution)
    yield from suggest_other_path_toolkits(trial)


def suggest_other_path_toolkits(trial: WhatIf) -> Iterator[Suggestion]:
    """For provider path, yield other toolkits. Suggest a source build only if no wheel works."""
    if trial.settings.toolkit.provider != "path":
        return
    fitting = {
        cuda: resolution
        for cuda in _list_toolkit_versions(trial)
        if cuda != "auto"
        and (resolution := trial.resolve_with(_add_host_toolkit(trial.host, cuda, chosen=True)))
        and resolution.toolkit.version == cuda
    }
    without_build = {cuda: one for cuda, one in fitting.items() if one.strategy != "source"}
    if resolutions := without_build or fitting:
        cudas = _format_cuda_range(trial.knowledge, resolutions)
        yield Suggestion(f"set toolkit.path to {cudas}", next(iter(resolutions.values())))


def _list_toolkit_versions(trial: WhatIf) -> list[str]:
    """Return the values of toolkit.version to try for these targets."""
    requested = trial.settings.toolkit.version
    try:
        targets, _ = find_targets(trial.settings, trial.host, trial.knowledge)
    except TorchyardError:
        return []
    capable = list_capable_toolkits(trial.knowledge, targets)
    versions = sorted(capable, key=lambda cuda: cuda != requested)
    return versions if requested == "auto" else ["auto", *versions]


def _add_host_toolkit(host: Host, cuda: str, *, chosen: bool = False) -> Host:
    """Return the host with one more toolkit. `chosen` makes it the one in toolkit.path."""
    toolkit = InstalledToolkit(_ANY_FOLDER, f"{cuda}.0", chosen)
    other_toolkits = tuple(kit for kit in host.toolkits if not (chosen and kit.asked))
    return replace(host, toolkits=(toolkit, *other_toolkits))


def _format_path_alternative(
    trial: WhatIf, cuda: str, keys: ToolkitKeys, choice: Resolution
) -> str:
    """Return the text that suggests toolkit.path instead, "" if the resolution would differ."""
    path_host = _add_host_toolkit(trial.host, cuda, chosen=True)
    other_keys = {name: value for name, value in keys.items() if name != "provider"}
    for provider_keys in ({}, {"provider": "path"}):
        path_keys = {**other_keys, **provider_keys, "path": _ANY_FOLDER}
        result = trial.resolve_with(path_host, toolkit=path_keys)
        if result and (result.strategy, result.torch, result.cuda, result.toolkit.version) == (
            *(choice.strategy, choice.torch, choice.cuda, choice.toolkit.version),
        ):
            extra_text = " and toolkit.provider: path" if provider_keys else ""
            return f", or set toolkit.path to it{extra_text}"
    return ""


def _format_cuda_range(knowledge: Knowledge, able: Mapping[str, Resolution]) -> str:
    """Return the CUDA releases as text, such as `CUDA 12.0 to 12.9` or `CUDA 12.0 or 12.8`."""
    versions = [cuda for cuda in knowledge.toolkits if cuda in able]
    all_versions = list(knowledge.toolkits)
    span = all_versions[all_versions.index(versions[0]) : all_versions.index(versions[-1]) + 1]
    if len(versions) == 1:
        return f"CUDA {versions[0]}"
    if span != versions:
        return f"CUDA {', '.join(versions[:-1])} or {versions[-1]}"
    return f"CUDA {versions[0]} to {versions[-1]}"


def _list_provider_changes(trial: WhatIf, keys: ToolkitKeys, other: str) -> list[ToolkitKeys]:
    """Return `keys`, then `keys` with the provider `other` if that finds more toolkits."""
    providers = {"auto": {"auto"}, "system": {"auto", "system"}}[other]
    is_current_enough = trial.settings.toolkit.provider in providers
    return [keys] if is_current_enough else [keys, {**keys, "provider": other}]


def format_assignments(keys: Mapping[str, str | None], section: str = "toolkit") -> str:
    """Format changed keys, such as `toolkit.version: "12.8" and toolkit.provider: auto`."""
    return " and ".join(
        f"{section}.{key}: {json.dumps(value) if not value or value[0].isdigit() else value}"
        for key, value in keys.items()
    )


_AUTO_TOOLKIT = {"version": "auto"}


def suggest_releases(trial: WhatIf) -> Iterator[Suggestion]:
    """Yield torch releases that work: verified wheels first, newer releases before older ones."""
    settings = trial.settings
    if settings.torch.strategy == "existing" or find_source_reason(settings):
        return
    if settings.torch.index != "auto":
        return
    keeps_toolkit = settings.toolkit.version == "auto" or trial.resolve_with(toolkit=_AUTO_TOOLKIT)
    # Suggest a source build, which takes hours, only if the settings request one
    strategy = "source" if settings.torch.strategy == "source" else "prebuilt"
    unverified = []
    for release in list_nearest_releases(trial.knowledge, settings.torch.version):
        for toolkit_keys in ({},) if keeps_toolkit else ({}, _AUTO_TOOLKIT):
            resolution = trial.resolve_with(torch={"version": release.patch}, toolkit=toolkit_keys)
            if resolution and resolution.strategy == strategy:
                cuda = f"with CUDA {resolution.cuda}" if resolution.cuda else "for the CPU"
                reason = f"it builds {cuda}" if strategy == "source" else resolution.strategy_why
                toolkit = " and toolkit.version: auto" if toolkit_keys else ""
                hint = f'set torch.version: "{release.patch}"{toolkit}: {reason}'
                suggestion = Suggestion(hint, resolution)
                if _has_verified_wheel(trial, resolution):
                    yield suggestion
                unverified.append(suggestion)
    yield from unverified


def suggest_releases_and_toolkits(trial: WhatIf) -> Iterator[Suggestion]:
    """Suggest another torch release together with a toolkit to install."""
    return _add_toolkit_installs(suggest_releases(trial.add_all_toolkits()))


def suggest_pythons_and_toolkits(trial: WhatIf) -> Iterator[Suggestion]:
    """Suggest another Python together with a toolkit to install."""
    return _add_toolkit_installs(suggest_pythons(trial.add_all_toolkits()))


def _add_toolkit_installs(suggestions: Iterator[Suggestion]) -> Iterator[Suggestion]:
    for one in suggestions:
        cuda = one.resolution.toolkit.version
        yield replace(one, hint=f"install CUDA {cuda} ({CUDA_ARCHIVE_URL}) and {one.hint}")


def suggest_source_strategy(trial: WhatIf) -> Iterator[Suggestion]:
    """Suggest a source build if torch.strategy is prebuilt."""
    is_wheel = trial.settings.torch.strategy == "prebuilt"
    if is_wheel and (resolution := trial.resolve_with(torch={"strategy": "source"})):
        yield Suggestion("set torch.strategy: source, to build it", resolution)


def suggest_other_wheels(trial: WhatIf) -> Iterator[Suggestion]:
    """Yield other wheels with verified code for all targets, the same minor release first."""
    current, requested = trial.resolve_with(), trial.settings.torch.version
    # the newest known patch of the requested minor release, then of the nearest ones
    minor, releases = parse_major_minor(requested), trial.knowledge.releases
    same_minor = [releases[name] for name in releases if parse_major_minor(name) == minor]
    for release in (*same_minor, *list_nearest_releases(trial.knowledge, requested)):
        keys = {"index": "auto", "version": release.patch, "local": None, "sha256": None}
        resolution = trial.resolve_with(torch=keys)
        if resolution is None or resolution.strategy != "prebuilt":
            continue
        found = (resolution.torch, resolution.index)
        is_current = current and (current.torch, current.index) == found
        if not is_current and _has_verified_wheel(trial, resolution):
            hint = f"set {_format_changed_keys(trial, keys)}: {resolution.strategy_why}"
            yield Suggestion(hint, resolution)


def suggest_source_build(trial: WhatIf) -> Iterator[Suggestion]:
    """Suggest a source build of the requested torch version, if it works."""
    keys = {"strategy": "source", "local": None}
    if resolution := trial.resolve_with(torch=keys):
        yield Suggestion(f"set {_format_changed_keys(trial, keys)}, to build it", resolution)


def _format_changed_keys(trial: WhatIf, keys: Mapping[str, str | None]) -> str:
    """Format the keys that change, such as `torch.index: auto and torch.version: "2.15.0"`."""
    torch = trial.settings.torch
    changed = {key: value for key, value in keys.items() if getattr(torch, key) != value}
    return format_assignments(changed, "torch")


def _has_verified_wheel(trial: WhatIf, choice: Resolution) -> bool:
    if choice.strategy != "prebuilt":
        return True
    platform = (trial.host.system, trial.host.machine, choice.cuda)
    wheel = select_official_wheel(trial.knowledge, choice.torch, choice.targets, *platform)
    return wheel is not None and wheel.verified


def suggest_pythons(trial: WhatIf) -> Iterator[Suggestion]:
    """Yield the oldest and newest Python of the torch release that work, the nearer one first."""
    try:
        release = find_release(trial.knowledge, trial.settings.torch.version)
    except TorchyardError:
        return
    for version in filter(None, list_fitting_pythons(trial, release)):
        python = replace(trial.host.python, version=version, torch=None)
        if resolution := trial.resolve_with(replace(trial.host, python=python)):
            hint = format_python_hint(version, into=bool(trial.settings.install.into))
            yield Suggestion(hint, resolution)


def format_python_hint(version: str, *, into: bool) -> str:
    """Return a hint to use this Python. With `into`, install.into needs a new environment."""
    if into:
        return (
            f"create an environment with Python {version} (conda create -n NAME python={version}, "
            f"or uv venv --python {version} FOLDER), install your project's packages into it, and "
            "set install.into and python to its Python (doit init sets both)"
        )
    return f'set python: "{version}" (to install it: uv python install {version})'


def list_fitting_pythons(trial: WhatIf, found: Release) -> tuple[str, ...]:
    """Return the Pythons to try with a release, nearest first, or ("",) if the current one fits."""
    host, python = trial.host, parse_major_minor(trial.host.python.version)
    first, last = found.python
    if trial.settings.torch.strategy == "prebuilt":
        first, last = find_wheel_pythons(found, host.system, host.machine)
    if not last:
        return ()
    if parse_major_minor(first) <= python <= parse_major_minor(last):
        return ("",)
    is_older = python < parse_major_minor(first)
    return tuple(dict.fromkeys((first, last) if is_older else (last, first)))


def suggest_profiles(trial: WhatIf) -> Iterator[Suggestion]:
    """Yield a suggestion to use one profile for each target, if each target works separately."""
    resolutions = _resolve_each_target(trial)
    if len(resolutions) > 1 and all(resolutions.values()):
        targets = " and ".join(resolutions)
        first = next(resolution for resolution in resolutions.values() if resolution)
        yield Suggestion(f"build for {targets} in {len(resolutions)} profiles", first)


def suggest_fewer_targets(trial: WhatIf) -> Iterator[Suggestion]:
    """Suggest a build for all possible targets, then a build for only the newest of these.

    A target is possible if a build for this target alone can be resolved.
    """
    resolutions = _resolve_each_target(trial)
    possible = {name: resolution for name, resolution in resolutions.items() if resolution}
    newest = max(possible, key=lambda name: possible[name].targets, default="")
    for targets in (tuple(possible), (newest,)):
        if not possible or len(targets) == len(resolutions):
            continue
        if resolution := trial.resolve_with(target={"gpus": targets}):
            omitted = ", ".join(name for name in resolutions if name not in targets)
            gpus = ", ".join(f'"{name}"' for name in targets)
            yield Suggestion(f"set target.gpus: [{gpus}], which leaves out {omitted}", resolution)


def _resolve_each_target(trial: WhatIf) -> dict[str, Resolution | None]:
    """Return the resolution for each target separately, None for a target that fails."""
    requested = trial.settings.target.gpus
    gpus = requested if requested != "auto" else tuple({gpu.capability for gpu in trial.host.gpus})
    return {name: trial.resolve_with(target={"gpus": (name,)}) for name in sorted(gpus)}
