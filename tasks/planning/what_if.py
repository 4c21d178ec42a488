"""Resolve with changed settings or on a changed host, and list the single changes that help."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
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
            name: structs.replace(getattr(self.settings, name), **keys)
            for name, keys in sections.items()
        }
        settings = structs.replace(self.settings, **changed)
        target_host = host or self.host
        try:
            resolution = self.attempt(settings, target_host, self.knowledge)
        except TorchyardError:
            return None
        is_bad = is_known_bad(self.knowledge, resolution, target_host)
        return resolution if self._is_known_build(resolution) and not is_bad else None

    def add_all_toolkits(self) -> WhatIf:
        """Return the same on a host that has every known toolkit."""
        toolkits = tuple(InstalledToolkit("", f"{cuda}.0") for cuda in self.knowledge.toolkits)
        return replace(self, host=replace(self.host, toolkits=toolkits))

    def _is_known_build(self, choice: Resolution) -> bool:
        """Return True if a build uses the requested toolkit or one that torch is published with.

        True also for other strategies and for the CPU.
        """
        if choice.strategy != "source" or choice.cuda in {None, self.settings.toolkit.version}:
            return True
        try:
            release = find_release(self.knowledge, choice.torch)
        except TorchyardError:
            return False
        return choice.cuda in list_published_toolkits(
            self.knowledge, release, choice.targets, choice.system
        )


def is_known_bad(knowledge: Knowledge, choice: Resolution, host: Host) -> bool:
    """Return True if the build is known to fail.

    The toolkit is compared by its release: a toolkit that will be installed has no full version
    yet.
    """
    combination = replace(choice.build_combination(host), cuda=choice.toolkit.version or None)
    findings = (
        *find_known_bad(knowledge, combination),
        *find_too_old_versions(knowledge, combination),
    )
    return any(finding.level == "error" for finding in findings)


ToolkitKeys = dict[str, str]
_ANY_FOLDER = "."  # a placeholder: the folder that the user will name is not known


def suggest_toolkits(trial: WhatIf) -> Iterator[Suggestion]:
    """Yield the toolkits that `auto` finds, other available ones, and last one to install."""
    available = list(_suggest_available_toolkits(trial, _list_toolkit_versions(trial)))
    yield from (
        suggestion for suggestion in available if suggestion.resolution.strategy != "source"
    )
    yield from available
    yield from suggest_toolkit_install(trial)


def suggest_toolkit_install(trial: WhatIf) -> Iterator[Suggestion]:
    """Yield a toolkit to install: first with the current settings, then with one more change.

    Nothing with provider path: toolkit.path names the toolkit.
    """
    if trial.settings.toolkit.provider == "path":
        return
    resolution = trial.add_all_toolkits().resolve_with()
    needed = resolution.toolkit.version if resolution else ""  # what the refusal says is needed
    versions = [cuda for cuda in _list_toolkit_versions(trial) if cuda != "auto"]
    versions.sort(key=lambda cuda: cuda != needed)
    changes = [
        (cuda, keys) for keys in _list_provider_changes(trial, {}, "system") for cuda in versions
    ]
    for cuda, keys in [*changes, *((cuda, {"version": cuda}) for cuda in versions)]:
        result = trial.resolve_with(_add_host_toolkit(trial.host, cuda), toolkit=keys)
        if result and result.toolkit.version == cuda:
            extra_keys = f" and write {_format_toolkit_keys(keys)}" if keys else ""
            alternative = _format_path_alternative(trial, cuda, keys, result)
            yield Suggestion(
                f"install CUDA {cuda} ({CUDA_ARCHIVE_URL}){extra_keys}{alternative}", result
            )


def suggest_path_toolkits(trial: WhatIf) -> Iterator[Suggestion]:
    """Yield, with provider path, a torch for the toolkit in toolkit.path, then other toolkits."""
    yield from _suggest_torch_for_path(trial)
    yield from suggest_other_path_toolkits(trial)


def _suggest_torch_for_path(trial: WhatIf) -> Iterator[Suggestion]:
    """Yield, with provider path, the torch that suits the toolkit in toolkit.path."""
    if trial.settings.toolkit.provider != "path":
        return
    for kit in (toolkit for toolkit in trial.host.toolkits if toolkit.asked):
        keys = {"version": kit.release}
        if resolution := trial.resolve_with(toolkit=keys):
            yield Suggestion(
                f"{_format_toolkit_keys(keys)}, which is in toolkit.path: "
                f"{_describe_torch(resolution)}",
                resolution,
            )


def suggest_other_path_toolkits(trial: WhatIf) -> Iterator[Suggestion]:
    """Yield, with provider path, the other toolkits that work there.

    One that requires a source build is included only if none has a wheel.
    """
    if trial.settings.toolkit.provider != "path":
        return
    fitting = {
        cuda: resolution
        for cuda in _list_toolkit_versions(trial)
        if cuda != "auto"
        and (resolution := trial.resolve_with(_add_host_toolkit(trial.host, cuda, asked=True)))
        and resolution.toolkit.version == cuda
    }
    without_build = {
        cuda: resolution for cuda, resolution in fitting.items() if resolution.strategy != "source"
    }
    if resolutions := without_build or fitting:
        yield Suggestion(
            f"name {_format_cuda_range(trial.knowledge, resolutions)} in toolkit.path",
            next(iter(resolutions.values())),
        )


def _list_toolkit_versions(trial: WhatIf) -> list[str]:
    """Return the values for toolkit.version for these targets, the requested one first."""
    requested = trial.settings.toolkit.version
    try:
        targets, _ = find_targets(trial.settings, trial.host, trial.knowledge)
    except TorchyardError:
        return []
    versions = sorted(
        list_capable_toolkits(trial.knowledge, targets), key=lambda cuda: cuda != requested
    )
    return versions if requested == "auto" else ["auto", *versions]


def _suggest_available_toolkits(trial: WhatIf, order: Iterable[str]) -> Iterator[Suggestion]:
    changes: list[ToolkitKeys] = [{"version": cuda} for cuda in order]
    if changes and trial.settings.toolkit.provider == "path":
        changes = [{}, {"version": "auto"}]  # toolkit.path stays unless torch's toolkit is found
    for change in changes:
        for keys in _list_provider_changes(trial, change, "auto"):
            resolution = trial.resolve_with(toolkit=keys)
            if resolution and resolution.toolkit.provider not in {"none", "path"}:
                yield Suggestion(
                    f"{_format_toolkit_keys(keys)} ({resolution.toolkit.why})", resolution
                )


def _add_host_toolkit(host: Host, cuda: str, *, asked: bool = False) -> Host:
    """Return the host with one more toolkit; with `asked`, it replaces the one in toolkit.path."""
    toolkit = InstalledToolkit(_ANY_FOLDER, f"{cuda}.0", asked)
    other_toolkits = tuple(kit for kit in host.toolkits if not (asked and kit.asked))
    return replace(host, toolkits=(toolkit, *other_toolkits))


def _format_path_alternative(
    trial: WhatIf, cuda: str, keys: ToolkitKeys, choice: Resolution
) -> str:
    """Suggest toolkit.path as an alternative, with the provider it needs.

    Return "" if the result would differ.
    """
    path_host = _add_host_toolkit(trial.host, cuda, asked=True)
    other_keys = {name: value for name, value in keys.items() if name != "provider"}
    for provider_keys, extra_text in (
        ({}, ""),
        ({"provider": "path"}, " and toolkit.provider: path"),
    ):
        resolution = trial.resolve_with(
            path_host, toolkit={**other_keys, **provider_keys, "path": _ANY_FOLDER}
        )
        if resolution and _is_same_resolution(resolution, choice):
            return f", or name it with toolkit.path{extra_text}"
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
    versions = [cuda for cuda in knowledge.toolkits if cuda in able]
    all_versions = list(knowledge.toolkits)
    span = all_versions[all_versions.index(versions[0]) : all_versions.index(versions[-1]) + 1]
    if len(versions) == 1:
        return f"CUDA {versions[0]}"
    if span != versions:
        return f"CUDA {', '.join(versions[:-1])} or {versions[-1]}"
    return f"CUDA {versions[0]} to {versions[-1]}"


def _list_provider_changes(trial: WhatIf, keys: ToolkitKeys, other: str) -> list[ToolkitKeys]:
    """Return the change with the current provider, then with `other`.

    The second is left out if the current provider already looks there.
    """
    providers = {"auto": {"auto"}, "system": {"auto", "system"}}[other]
    is_current_enough = trial.settings.toolkit.provider in providers
    return [keys] if is_current_enough else [keys, {**keys, "provider": other}]


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
    keeps_toolkit = settings.toolkit.version == "auto" or trial.resolve_with(toolkit=_AUTO_TOOLKIT)
    # Compiling takes hours: suggest it only if it was requested
    strategy = "source" if settings.torch.strategy == "source" else "prebuilt"
    unverified = []
    for release in list_nearest_releases(trial.knowledge, settings.torch.version):
        for toolkit_keys in ({},) if keeps_toolkit else ({}, _AUTO_TOOLKIT):
            resolution = trial.resolve_with(torch={"version": release.patch}, toolkit=toolkit_keys)
            if resolution and resolution.strategy == strategy:
                suggestion = Suggestion(
                    _format_release_hint(release.patch, resolution, toolkit_keys), resolution
                )
                if _has_verified_wheel(trial, resolution):
                    yield suggestion
                unverified.append(suggestion)
    yield from unverified


def suggest_releases_and_toolkits(trial: WhatIf) -> Iterator[Suggestion]:
    """Yield another release with its toolkit to install, if neither helps separately."""
    for suggestion in suggest_releases(trial.add_all_toolkits()):
        cuda = suggestion.resolution.toolkit.version
        yield replace(
            suggestion, hint=f"install CUDA {cuda} ({CUDA_ARCHIVE_URL}) and {suggestion.hint}"
        )


def suggest_source_strategy(trial: WhatIf) -> Iterator[Suggestion]:
    """Yield a source build if the settings require a wheel."""
    if trial.settings.torch.strategy != "prebuilt":
        return
    resolution = trial.resolve_with(torch={"strategy": "source"})
    if resolution:
        yield Suggestion("torch.strategy: source, to build it", resolution)


def suggest_other_wheels(trial: WhatIf) -> Iterator[Suggestion]:
    """Yield other official wheels that are known to contain code for every target.

    Those of the same minor release come first, then those of the nearest.
    """
    current = trial.resolve_with()
    for version in _list_release_patches(trial):
        keys = {"index": "auto", "version": version, "local": None, "sha256": None}
        resolution = trial.resolve_with(torch=keys)
        if (
            resolution is None
            or resolution.strategy != "prebuilt"
            or not _has_verified_wheel(trial, resolution)
        ):
            continue
        if not current or (current.torch, current.index) != (resolution.torch, resolution.index):
            yield Suggestion(
                f"set {_format_changed_keys(trial, keys)}: {resolution.strategy_why}", resolution
            )


def suggest_source_build(trial: WhatIf) -> Iterator[Suggestion]:
    """Yield a source build instead of the current wheel."""
    keys = {"strategy": "source", "local": None}
    if resolution := trial.resolve_with(torch=keys):
        yield Suggestion(f"set {_format_changed_keys(trial, keys)}, to build it", resolution)


def _list_release_patches(trial: WhatIf) -> list[str]:
    """Return the newest known patch of the requested minor release, then of the nearest ones."""
    version = trial.settings.torch.version
    releases = trial.knowledge.releases
    same_minor = [
        release
        for minor, release in releases.items()
        if parse_major_minor(minor) == parse_major_minor(version)
    ]
    return [
        release.patch for release in (*same_minor, *list_nearest_releases(trial.knowledge, version))
    ]


def _format_changed_keys(trial: WhatIf, keys: Mapping[str, str | None]) -> str:
    """Format the changed keys: `torch.index: auto and torch.version: "2.15.0"`."""
    torch = trial.settings.torch
    changed = {key: value for key, value in keys.items() if getattr(torch, key) != value}
    return " and ".join(
        f"torch.{key}: {json.dumps(value) if not value or value[0].isdigit() else value}"
        for key, value in changed.items()
    )


def _has_verified_wheel(trial: WhatIf, choice: Resolution) -> bool:
    if choice.strategy != "prebuilt":
        return True
    host = trial.host
    wheel = select_official_wheel(
        trial.knowledge, choice.torch, choice.targets, host.system, host.machine, choice.cuda
    )
    return wheel is not None and wheel.verified


def _format_release_hint(version: str, choice: Resolution, more: dict[str, str]) -> str:
    toolkit_text = " with toolkit.version: auto" if more else ""
    reason = choice.strategy_why
    if choice.strategy == "source":
        reason = f"it builds with CUDA {choice.cuda}" if choice.cuda else "it builds for the CPU"
    return f"take torch {version}{toolkit_text}: {reason}"


def suggest_pythons(trial: WhatIf) -> Iterator[Suggestion]:
    """Yield the two ends of the release's Python range, the nearer one first.

    Other interpreters of this machine are not considered: finding them takes processes, and this
    module is pure.
    """
    release = _find_unsupported_release(trial)
    for version in list_fitting_pythons(trial, release) if release else ():
        python = replace(trial.host.python, version=version, torch=None)
        if resolution := trial.resolve_with(replace(trial.host, python=python)):
            yield Suggestion(
                format_python_hint(version, into=bool(trial.settings.install.into)), resolution
            )


def suggest_pythons_and_toolkits(trial: WhatIf) -> Iterator[Suggestion]:
    """Yield another Python with a toolkit to install, if neither helps separately."""
    for suggestion in suggest_pythons(trial.add_all_toolkits()):
        cuda = suggestion.resolution.toolkit.version
        yield replace(
            suggestion, hint=f"{suggestion.hint} and install CUDA {cuda} ({CUDA_ARCHIVE_URL})"
        )


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
        release = find_release(trial.knowledge, trial.settings.torch.version)
    except TorchyardError:
        return None
    return None if list_fitting_pythons(trial, release) == ("",) else release


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
    resolutions = _resolve_each_target(trial)
    if len(resolutions) > 1 and all(resolutions.values()):
        targets = " and ".join(resolutions)
        first = next(resolution for resolution in resolutions.values() if resolution)
        yield Suggestion(f"build for {targets} in {len(resolutions)} profiles", first)


def suggest_fewer_targets(trial: WhatIf) -> Iterator[Suggestion]:
    """Yield the targets that can be built; last, only the newest one."""
    resolutions = _resolve_each_target(trial)
    possible = {name: resolution for name, resolution in resolutions.items() if resolution}
    newest = max(possible, key=lambda name: possible[name].targets, default="")
    for targets in (tuple(possible), (newest,)):
        if not possible or len(targets) == len(resolutions):
            continue
        if resolution := trial.resolve_with(target={"gpus": targets}):
            omitted = ", ".join(name for name in resolutions if name not in targets)
            gpus = ", ".join(f'"{name}"' for name in targets)
            yield Suggestion(f"write target.gpus: [{gpus}], which leaves out {omitted}", resolution)


def _resolve_each_target(trial: WhatIf) -> dict[str, Resolution | None]:
    """Resolve each target separately; None for a target that fails."""
    requested = trial.settings.target.gpus
    gpus = requested if requested != "auto" else tuple({gpu.capability for gpu in trial.host.gpus})
    return {name: trial.resolve_with(target={"gpus": (name,)}) for name in sorted(gpus)}
