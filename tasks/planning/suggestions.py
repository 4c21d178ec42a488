"""Suggest other settings if a resolution fails. Each suggestion is tried before it is shown."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple

from msgspec import structs

from tasks.core.errors import TorchyardError
from tasks.core.model import Host, InstalledToolkit
from tasks.core.resolution import Resolution
from tasks.knowledge import Knowledge, torch_releases
from tasks.knowledge.cuda_toolkits import list_capable_toolkits, list_published_toolkits
from tasks.knowledge.facts import Release
from tasks.knowledge.known_problems import find_known_bad
from tasks.knowledge.minimum_versions import find_too_old_versions
from tasks.knowledge.torch_releases import find_release, list_nearest_releases
from tasks.knowledge.versions import parse_major_minor
from tasks.planning.resolve import find_source_reason, resolve_without_suggestions
from tasks.planning.target_resolution import (
    CUDA_ARCHIVE_URL,
    find_targets,
    select_compiled_targets,
)
from tasks.settings.schema import Settings


@dataclass(frozen=True)
class Suggestion:
    """A change that was tried and works: the `hint` for the user and the new `resolution`."""

    hint: str
    resolution: Resolution


@dataclass(frozen=True)
class WhatIf:
    """The settings and the host for which changes are tried, to suggest those that work."""

    settings: Settings
    host: Host
    knowledge: Knowledge

    def resolve_with(
        self, host: Host | None = None, **sections: Mapping[str, Any]
    ) -> Resolution | None:
        """Return the resolution with another host or changed settings, `None` if it fails.

        `sections` maps a section to its new values. A source build may only use a toolkit that was
        requested or for which PyTorch publishes wheels.
        """
        changed = {
            name: structs.replace(getattr(self.settings, name), **keys)
            for name, keys in sections.items()
        }
        settings, host = structs.replace(self.settings, **changed), host or self.host
        try:
            resolution = resolve_without_suggestions(settings, host, self.knowledge)
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


_ANY_FOLDER = "."  # a placeholder for the folder that the user will set


def suggest_toolkits(trial: WhatIf) -> Iterator[Suggestion]:
    """Suggest available toolkits, those without a source build first, then toolkits to install."""
    changes = [{"version": cuda} for cuda in _list_toolkit_versions(trial)]
    if changes and trial.settings.toolkit.provider == "path":
        changes = [{}, {"version": "auto"}]  # toolkit.path stays unless torch's toolkit is found
    available = [
        Suggestion(f"set {_format_assignments(keys)} ({resolution.toolkit.why})", resolution)
        for change in changes
        for keys in _list_provider_changes(trial, change, "auto")
        if (resolution := trial.resolve_with(toolkit=keys)) and _is_usable_toolkit(resolution, keys)
    ]
    yield from (one for one in available if one.resolution.strategy != "source")
    yield from available
    yield from suggest_toolkit_install(trial)


def _is_usable_toolkit(choice: Resolution, keys: Mapping[str, str]) -> bool:
    """Return True for a toolkit that is available, or if `auto` says that none is needed."""
    is_needless = choice.toolkit.provider == "none" and keys.get("version") == "auto"
    return is_needless or choice.toolkit.provider not in {"none", "path"}


def suggest_toolkit_install(trial: WhatIf) -> Iterator[Suggestion]:
    """Suggest toolkits to install, first those that work without a change of the settings."""
    if trial.settings.toolkit.provider == "path":
        return
    resolution = trial.add_all_toolkits().resolve_with()
    needed = resolution.toolkit.version if resolution else ""  # what the error message requires
    versions = [cuda for cuda in _list_toolkit_versions(trial) if cuda != "auto"]
    versions.sort(key=lambda cuda: cuda != needed)
    changes = [*product(_list_provider_changes(trial, {}, "system"), versions)]
    changes += [
        (keys, cuda)
        for cuda in versions
        for keys in _list_provider_changes(trial, {"version": cuda}, "system")
    ]
    for keys, cuda in changes:
        result = trial.resolve_with(_add_host_toolkit(trial.host, cuda), toolkit=keys)
        if result and result.toolkit.version == cuda:
            extra_keys = f" and set {_format_assignments(keys)}" if keys else ""
            alternative = _format_path_alternative(trial, cuda, result)
            hint = f"install CUDA {cuda} ({CUDA_ARCHIVE_URL}){extra_keys}{alternative}"
            yield Suggestion(hint, result)


def suggest_path_toolkits(trial: WhatIf) -> Iterator[Suggestion]:
    """Suggest a torch for the toolkit in toolkit.path, then other toolkits for toolkit.path."""
    if trial.settings.toolkit.provider != "path":
        return
    for kit in (kit for kit in trial.host.toolkits if kit.asked):
        keys = {"version": kit.release}
        if resolution := trial.resolve_with(toolkit=keys):
            torch = resolution.strategy_why
            if resolution.strategy == "source":
                torch = f"torch {resolution.torch} is built with it"
            hint = f"set {_format_assignments(keys)}, the toolkit in toolkit.path: {torch}"
            yield Suggestion(hint, resolution)
    yield from suggest_other_path_toolkits(trial)


def suggest_other_path_toolkits(trial: WhatIf) -> Iterator[Suggestion]:
    """Suggest other toolkits for toolkit.path, if possible without a source build."""
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
    """Return the values to try for toolkit.version, given the targets of the settings."""
    requested = trial.settings.toolkit.version
    try:
        targets, _ = find_targets(trial.settings, trial.host, trial.knowledge)
    except TorchyardError:
        return []
    compiled = select_compiled_targets(trial.knowledge, targets)
    capable = list_capable_toolkits(trial.knowledge, compiled.archs)
    versions = sorted(capable, key=lambda cuda: cuda != requested)
    return versions if requested == "auto" else ["auto", *versions]


def _add_host_toolkit(host: Host, cuda: str, *, chosen: bool = False) -> Host:
    """Return the host with one more toolkit. If `chosen`, toolkit.path names this toolkit."""
    toolkit = InstalledToolkit(_ANY_FOLDER, f"{cuda}.0", chosen)
    other_toolkits = tuple(kit for kit in host.toolkits if not (chosen and kit.asked))
    return replace(host, toolkits=(toolkit, *other_toolkits))


def _format_path_alternative(trial: WhatIf, cuda: str, choice: Resolution) -> str:
    """Return a hint that only toolkit.path can be set, "" if that leads elsewhere."""
    path_host = _add_host_toolkit(trial.host, cuda, chosen=True)
    expected = (choice.strategy, choice.torch, choice.cuda, choice.toolkit.version)
    path_keys = {"provider": trial.settings.toolkit.provider, "path": _ANY_FOLDER}
    for provider, extra_text in (({}, ""), ({"provider": "path"}, " and toolkit.provider: path")):
        result = trial.resolve_with(path_host, toolkit={**path_keys, **provider})
        found = result and (result.strategy, result.torch, result.cuda, result.toolkit.version)
        if found == expected:
            return f", or set toolkit.path to it{extra_text}"
    return ""


def _format_cuda_range(knowledge: Knowledge, able: Mapping[str, Resolution]) -> str:
    """Format CUDA releases, such as `CUDA 12.0 to 12.9` or `CUDA 12.0 or 12.8`."""
    known = list(knowledge.toolkits)
    *others, last = versions = [cuda for cuda in known if cuda in able]
    if others and known[known.index(others[0]) : known.index(last) + 1] == versions:
        return f"CUDA {others[0]} to {last}"
    return f"CUDA {', '.join(others)} or {last}" if others else f"CUDA {last}"


def _list_provider_changes(trial: WhatIf, keys: dict[str, str], other: str) -> list[dict[str, str]]:
    """Return `keys`, then `keys` with the provider `other` if the current one excludes it."""
    is_enough = trial.settings.toolkit.provider in {"auto", other}
    return [keys] if is_enough else [keys, {**keys, "provider": other}]


def _format_assignments(keys: Mapping[str, str | None], section: str = "toolkit") -> str:
    """Format changed keys, such as `toolkit.version: "12.8" and toolkit.provider: auto`."""
    return " and ".join(
        f"{section}.{key}: {json.dumps(value) if not value or value[0].isdigit() else value}"
        for key, value in keys.items()
    )


def suggest_releases(trial: WhatIf) -> Iterator[Suggestion]:
    """Suggest other torch releases, first those with a verified wheel."""
    settings = trial.settings
    torch = settings.torch
    if torch.strategy == "existing" or torch.index != "auto" or find_source_reason(settings):
        return
    auto = {"version": "auto"}
    keeps_toolkit = settings.toolkit.version == "auto" or trial.resolve_with(toolkit=auto)
    # Suggest a source build, which takes hours, only if the settings request one
    strategy = "source" if torch.strategy == "source" else "prebuilt"
    unverified = []
    releases = list_nearest_releases(trial.knowledge, torch.version)
    for release, toolkit_keys in product(releases, [{}] if keeps_toolkit else [{}, auto]):
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


def suggest_with_toolkit(
    kind: Callable[[WhatIf], Iterator[Suggestion]], trial: WhatIf
) -> Iterator[Suggestion]:
    """Yield the suggestions that `kind` makes for a host with every known toolkit installed."""
    for one in kind(trial.add_all_toolkits()):
        cuda = one.resolution.toolkit.version
        yield replace(one, hint=f"install CUDA {cuda} ({CUDA_ARCHIVE_URL}) and {one.hint}")


def suggest_other_wheels(trial: WhatIf) -> Iterator[Suggestion]:
    """Yield other wheels with verified code for all targets, the same minor release first."""
    current, requested = trial.resolve_with(), trial.settings.torch.version
    releases, minor = trial.knowledge.releases.items(), parse_major_minor(requested)
    same_minor = [release for name, release in releases if parse_major_minor(name) == minor]
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
    return _format_assignments(changed, "torch")


def _has_verified_wheel(trial: WhatIf, choice: Resolution) -> bool:
    if choice.strategy != "prebuilt":
        return True
    platform = (choice.targets, trial.host.system, trial.host.machine, choice.cuda)
    wheel = torch_releases.select_official_wheel(trial.knowledge, choice.torch, *platform)
    return wheel is not None and wheel.verified


def suggest_pythons(trial: WhatIf) -> Iterator[Suggestion]:
    """Suggest other Pythons: the oldest and the newest that the torch release supports."""
    try:
        release = find_release(trial.knowledge, trial.settings.torch.version)
    except TorchyardError:
        return
    for version in filter(None, _list_fitting_pythons(trial, release)):
        if resolution := trial.resolve_with(_replace_python(trial.host, version)):
            yield Suggestion(_format_python_hint(trial, version), resolution)


def _replace_python(host: Host, version: str) -> Host:
    return replace(host, python=replace(host.python, version=version, torch=None))


def _format_python_hint(trial: WhatIf, version: str) -> str:
    """Return a hint to use this Python, in a new environment if install.into is set."""
    if trial.settings.install.into:
        return (
            f"create an environment with Python {version} (conda create -n NAME python={version}, "
            f"or uv venv --python {version} FOLDER), install your project's packages into it, and "
            "set install.into and python to its Python (doit init sets both)"
        )
    return f'set python: "{version}" (to install it: uv python install {version})'


def _list_fitting_pythons(trial: WhatIf, found: Release) -> tuple[str, ...]:
    """Return the Python versions to try with a release; "" is the current version."""
    host, python = trial.host, parse_major_minor(trial.host.python.version)
    first, last = found.python
    if trial.settings.torch.strategy == "prebuilt":
        first, last = torch_releases.find_wheel_pythons(found, host.system, host.machine)
    if not last:
        return ()
    if parse_major_minor(first) <= python <= parse_major_minor(last):
        return ("",)
    nearest_first = (first, last) if python < parse_major_minor(first) else (last, first)
    return tuple(dict.fromkeys(nearest_first))


def suggest_profiles(trial: WhatIf) -> Iterator[Suggestion]:
    """Suggest one profile for each target, if each target works alone."""
    resolutions = _resolve_each_target(trial)
    if len(resolutions) > 1 and all(resolutions.values()):
        first = next(filter(None, resolutions.values()))
        targets = " and ".join(resolutions)
        yield Suggestion(f"build for {targets} in {len(resolutions)} profiles", first)


def suggest_fewer_targets(trial: WhatIf) -> Iterator[Suggestion]:
    """Suggest a build for the targets that work alone, then for only the newest of them."""
    resolutions = _resolve_each_target(trial)
    possible = {name: one for name, one in resolutions.items() if one}
    newest = max(possible, key=lambda name: possible[name].targets, default="")
    for targets in (tuple(possible), (newest,)):
        if not possible or len(targets) == len(resolutions):
            continue
        if resolution := trial.resolve_with(target={"gpus": targets}):
            omitted = ", ".join(name for name in resolutions if name not in targets)
            hint = f"set target.gpus: {json.dumps(targets)}, which leaves out {omitted}"
            yield Suggestion(hint, resolution)


def _resolve_each_target(trial: WhatIf) -> dict[str, Resolution | None]:
    """Return the resolution with each target alone, `None` for a target that fails."""
    requested = trial.settings.target.gpus
    gpus = requested if requested != "auto" else {gpu.capability for gpu in trial.host.gpus}
    return {name: trial.resolve_with(target={"gpus": (name,)}) for name in sorted(gpus)}


class CombinedChange(NamedTuple):
    """A combined change of settings. `cuda` is a toolkit to install; "" means no change."""

    torch: dict[str, str]
    toolkit: dict[str, str]
    python: str
    cuda: str

    @property
    def size(self) -> tuple[int, bool]:
        """Return the number of changed settings, and whether a toolkit must be installed."""
        return len(self.torch) + len(self.toolkit) + bool(self.python), bool(self.cuda)


def suggest_combined_changes(trial: WhatIf) -> Iterator[Suggestion]:
    """Suggest combined changes, smallest first; source builds last, unless one is requested."""
    settings = trial.settings
    if settings.torch.strategy == "existing" or not _has_any_support(trial):
        return
    needs_build = settings.torch.strategy == "source" or bool(find_source_reason(settings))
    builds = []
    for change in sorted(_list_changes(trial), key=lambda change: change.size):
        suggestion = _try_change(trial, change)
        if suggestion and (suggestion.resolution.strategy != "source" or needs_build):
            yield suggestion
        elif suggestion:
            builds.append(suggestion)
    yield from builds


def _has_any_support(trial: WhatIf) -> bool:
    """Return True if one toolkit or one official wheel supports all targets."""
    knowledge = trial.knowledge
    try:
        targets, _ = find_targets(trial.settings, trial.host, knowledge)
        compiled = select_compiled_targets(knowledge, targets)
        has_toolkit = bool(list_capable_toolkits(knowledge, compiled.archs))
    except TorchyardError:
        return False
    wheels = (wheel for release in knowledge.releases.values() for wheel in release.wheels)
    uncovered = (torch_releases.list_uncovered_archs(knowledge, wheel, targets) for wheel in wheels)
    return has_toolkit or not all(uncovered)


def _list_changes(trial: WhatIf) -> Iterator[CombinedChange]:
    """Yield combinations of release, Python, CUDA and toolkit provider to try (a few hundred)."""
    settings = trial.settings
    version, toolkit = settings.torch.version, settings.toolkit
    releases = []
    with suppress(TorchyardError):
        releases.append(structs.replace(find_release(trial.knowledge, version), patch=version))
    if not find_source_reason(settings) and settings.torch.index == "auto":
        releases += list_nearest_releases(trial.knowledge, version)
    for release in releases:
        torch = {"version": release.patch} if release.patch != version else {}
        cudas = dict.fromkeys(("", "auto", *release.cudas_built))
        cudas.pop(toolkit.version, None)
        pythons = _list_fitting_pythons(trial, release)
        providers = ("",) if toolkit.provider == "auto" else ("", "auto")
        for python, cuda, provider in product(pythons, cudas, providers):
            values = {"version": cuda, "provider": provider}
            keys = {key: value for key, value in values.items() if value}
            requested = cuda or toolkit.version
            installs = release.cudas_built if requested == "auto" else (requested,)
            can_install = (provider or toolkit.provider) != "pypi"
            for installed in ("", *(installs if can_install else ())):
                yield CombinedChange(torch, keys, python, installed)


def _try_change(trial: WhatIf, change: CombinedChange) -> Suggestion | None:
    host, is_path = trial.host, trial.settings.toolkit.provider == "path"
    host = _replace_python(host, change.python) if change.python else host
    host = _add_host_toolkit(host, change.cuda, chosen=is_path) if change.cuda else host
    resolution = trial.resolve_with(host, torch=change.torch, toolkit=change.toolkit)
    if resolution is None or change.cuda not in ("", resolution.toolkit.version):
        return None
    sections = {"torch": change.torch, "toolkit": change.toolkit}
    assignments = [_format_assignments(keys, name) for name, keys in sections.items() if keys]
    hints = [f"set {' and '.join(assignments)}"] if assignments else []
    if change.python:
        hints.append(_format_python_hint(trial, change.python))
    if change.cuda:
        install_hint = f"install CUDA {change.cuda} ({CUDA_ARCHIVE_URL})"
        hints.append(f"set toolkit.path to CUDA {change.cuda}" if is_path else install_hint)
    return Suggestion(", and ".join(hints), resolution)


def format_suggestions(settings: Settings, host: Host, knowledge: Knowledge) -> str:
    """Return all suggestions as one sentence, or an empty string if no change is known to help."""
    hints = [one.hint for one in list_suggestions(settings, host, knowledge)]
    trial = WhatIf(settings, host, knowledge)
    # The user may have installed a Python or a toolkit since the host facts were pinned. A changed
    # setting that names a Python or a toolkit has it searched again; pinned facts are not updated
    kinds = [suggest_toolkit_install, suggest_other_path_toolkits, suggest_pythons]
    kinds = kinds if settings.python == "auto" else kinds[:2]
    if host.pinned and any(next(kind(trial), None) for kind in kinds):
        hints.append("if you have installed what is missing, run: doit doctor --accept")
    return "; or ".join(hints)


def list_suggestions(
    settings: Settings, host: Host, knowledge: Knowledge
) -> tuple[Suggestion, ...]:
    """Return at most one suggestion of each kind.

    Pairs of changes are tried if no single change helps, larger combinations if no pair helps.
    """
    trial = WhatIf(settings, host, knowledge)
    suggestions: list[Suggestion | None] = []
    source_build = [suggest_source_build] if settings.torch.strategy == "prebuilt" else []
    toolkits = [suggest_path_toolkits, suggest_toolkits]
    one_change = [suggest_pythons, *toolkits, suggest_releases, *source_build, suggest_profiles]
    two_changes = [partial(suggest_with_toolkit, it) for it in (suggest_pythons, suggest_releases)]
    for kinds in (one_change, two_changes, [suggest_combined_changes]):
        if not any(suggestions):
            suggestions = [next(kind(trial), None) for kind in kinds]
    if settings.target.gpus == "auto" or not any(suggestions):
        suggestions.append(next(suggest_fewer_targets(trial), None))
    return tuple(filter(None, suggestions))


def format_wheel_alternatives(settings: Settings, host: Host, knowledge: Knowledge) -> str:
    """Suggest another wheel and a source build in place of a wheel that lacks code for a target."""
    trial = WhatIf(settings, host, knowledge)
    suggestions = (next(kind(trial), None) for kind in (suggest_other_wheels, suggest_source_build))
    return "; or ".join(suggestion.hint for suggestion in suggestions if suggestion)
