"""Suggest other settings if a resolution fails. Each suggestion is tried before it is shown.

Combinations that are known to be bad are not suggested. `what_if` has the single changes and the
pairs; this module combines more changes and formats the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from msgspec import structs

from tasks.core.errors import TorchyardError
from tasks.core.model import Arch, Host, InstalledToolkit
from tasks.knowledge import Knowledge
from tasks.knowledge.cuda_toolkits import list_capable_toolkits
from tasks.knowledge.facts import Release
from tasks.knowledge.torch_releases import find_release, list_nearest_releases, list_uncovered_archs
from tasks.planning import what_if
from tasks.planning.target_resolution import find_targets
from tasks.planning.toolkit_resolution import CUDA_ARCHIVE_URL
from tasks.planning.torch_candidates import find_source_reason
from tasks.settings.schema import Settings


@dataclass(frozen=True)
class CombinedChange:
    """The values that differ from the settings and the host, "" for those that do not.

    `installed` is a CUDA release that has to be installed first.
    """

    torch: str = ""
    python: str = ""
    cuda: str = ""
    provider: str = ""
    installed: str = ""

    @property
    def size(self) -> tuple[int, int]:
        """Return the number of changed settings, then whether CUDA has to be installed."""
        parts = (self.torch, self.python, self.cuda, self.provider)
        return sum(map(bool, parts)), bool(self.installed)


def suggest_combined_changes(trial: what_if.WhatIf) -> Iterator[what_if.Suggestion]:
    """Yield the working changes, the smallest first.

    Wheels come before builds unless the settings require a build.
    """
    if trial.settings.torch.strategy == "existing" or not _is_possible(trial):
        return
    builds = []
    for change in sorted(_list_changes(trial), key=lambda change: change.size):
        suggestion = _try_change(trial, change)
        if suggestion and (
            suggestion.resolution.strategy != "source" or _needs_source_build(trial.settings)
        ):
            yield suggestion
        elif suggestion:
            builds.append(suggestion)
    yield from builds


def _needs_source_build(settings: Settings) -> bool:
    return settings.torch.strategy == "source" or bool(find_source_reason(settings))


def _is_possible(trial: what_if.WhatIf) -> bool:
    """Return True if one toolkit or one official wheel supports every target."""
    knowledge = trial.knowledge
    try:
        targets, _ = find_targets(trial.settings, trial.host, knowledge)
        if list_capable_toolkits(knowledge, targets):
            return True
    except TorchyardError:
        return False
    return _has_covering_wheel(trial, targets)


def _has_covering_wheel(trial: what_if.WhatIf, targets: tuple[Arch, ...]) -> bool:
    return any(
        not list_uncovered_archs(trial.knowledge, wheel, targets)
        for release in trial.knowledge.releases.values()
        for wheel in release.wheels
    )


def _list_changes(trial: what_if.WhatIf) -> Iterator[CombinedChange]:
    """Yield every combination worth trying: a few hundred at most."""
    for release in _list_releases(trial):
        torch = "" if release.patch == trial.settings.torch.version else release.patch
        changed_trial = replace(trial, settings=_set_torch_version(trial.settings, torch))
        for python in what_if.list_fitting_pythons(changed_trial, release):
            for cuda in _list_cuda_versions(trial.settings, release):
                for provider, installed in _list_providers(trial.settings, cuda, release):
                    yield CombinedChange(torch, python, cuda, provider, installed)


def _list_releases(trial: what_if.WhatIf) -> Iterator[Release]:
    settings = trial.settings
    try:
        release = find_release(trial.knowledge, settings.torch.version)
        yield structs.replace(release, patch=settings.torch.version)
    except TorchyardError:
        pass
    if not find_source_reason(settings) and settings.torch.index == "auto":
        yield from list_nearest_releases(trial.knowledge, settings.torch.version)


def _set_torch_version(settings: Settings, torch: str) -> Settings:
    if not torch:
        return settings
    changed = structs.replace(settings.torch, version=torch)
    return structs.replace(settings, torch=changed)


def _list_cuda_versions(settings: Settings, found: Release) -> tuple[str, ...]:
    others = [cuda for cuda in ("auto", *found.cudas_built) if cuda != settings.toolkit.version]
    return ("", *others)


def _list_providers(settings: Settings, cuda: str, found: Release) -> Iterator[tuple[str, str]]:
    """Yield toolkit.provider and the CUDA release to install; "" for each that stays as it is."""
    provider = settings.toolkit.provider
    yield "", ""
    version = cuda or settings.toolkit.version
    for candidate in found.cudas_built if version == "auto" else (version,):
        if provider != "pypi":
            yield "", candidate
    if provider != "auto":
        yield "auto", ""


def _try_change(trial: what_if.WhatIf, change: CombinedChange) -> what_if.Suggestion | None:
    toolkit = {"version": change.cuda, "provider": change.provider}
    resolution = trial.resolve_with(
        _build_changed_host(trial, change),
        torch={"version": change.torch} if change.torch else {},
        toolkit={key: value for key, value in toolkit.items() if value},
    )
    if resolution is None or (change.installed and resolution.toolkit.version != change.installed):
        return None
    return what_if.Suggestion(_format_change_hint(trial.settings, change), resolution)


def _build_changed_host(trial: what_if.WhatIf, change: CombinedChange) -> Host:
    host = trial.host
    if change.python:
        host = replace(host, python=replace(host.python, version=change.python, torch=None))
    if change.installed:
        in_toolkit_path = trial.settings.toolkit.provider == "path"
        toolkit = InstalledToolkit(".", f"{change.installed}.0", in_toolkit_path)
        host = replace(host, toolkits=(toolkit, *host.toolkits))
    return host


def _format_change_hint(settings: Settings, change: CombinedChange) -> str:
    """`set torch.version: "2.9.1" and toolkit.version: auto, and install CUDA 12.8 (...)`."""
    keys = {
        "torch.version": change.torch,
        "toolkit.version": change.cuda,
        "toolkit.provider": change.provider,
    }
    assignments = [
        f"{key}: {value}" if value.isalpha() else f'{key}: "{value}"'
        for key, value in keys.items()
        if value
    ]
    parts = [f"set {' and '.join(assignments)}"] if assignments else []
    if change.python:
        parts.append(what_if.format_python_hint(change.python, into=bool(settings.install.into)))
    if change.installed and settings.toolkit.provider == "path":
        parts.append(f"name CUDA {change.installed} in toolkit.path")
    elif change.installed:
        parts.append(f"install CUDA {change.installed} ({CUDA_ARCHIVE_URL})")
    return ", and ".join(parts)


_ONE_CHANGE = (
    what_if.suggest_pythons,
    what_if.suggest_path_toolkits,
    what_if.suggest_toolkits,
    what_if.suggest_releases,
    what_if.suggest_source_strategy,
    what_if.suggest_profiles,
)
_TWO_CHANGES = (what_if.suggest_pythons_and_toolkits, what_if.suggest_releases_and_toolkits)
_MORE_CHANGES = (suggest_combined_changes,)
_ACCEPT_HINT = "if what is missing was installed since: doit doctor --accept"


def format_suggestions(
    settings: Settings, host: Host, knowledge: Knowledge, attempt: what_if.ResolveFunction
) -> str:
    """Return one sentence with every suggestion, "" if no change is known to help."""
    hints = [suggestion.hint for suggestion in list_suggestions(settings, host, knowledge, attempt)]
    if host.pinned and _can_new_install_help(what_if.WhatIf(settings, host, knowledge, attempt)):
        hints.append(_ACCEPT_HINT)
    return "; or ".join(hints)


def list_suggestions(
    settings: Settings, host: Host, knowledge: Knowledge, attempt: what_if.ResolveFunction
) -> tuple[what_if.Suggestion, ...]:
    """Return at most one suggestion of each kind.

    The kinds are another Python, another toolkit.path, any toolkit, another torch, another
    strategy, several profiles, and fewer targets. Two changes at once are suggested only if no
    single one helps; torch, CUDA and Python together only if no two do.
    """
    trial = what_if.WhatIf(settings, host, knowledge, attempt)
    single_changes = [next(kind(trial), None) for kind in _ONE_CHANGE]
    suggestions = (
        single_changes
        if any(single_changes)
        else [next(kind(trial), None) for kind in _TWO_CHANGES]
    )
    if not any(suggestions):
        suggestions = [next(kind(trial), None) for kind in _MORE_CHANGES]
    if settings.target.gpus == "auto" or not any(suggestions):
        suggestions = [*suggestions, next(what_if.suggest_fewer_targets(trial), None)]
    return tuple(suggestion for suggestion in suggestions if suggestion)


def format_wheel_alternatives(
    settings: Settings, host: Host, knowledge: Knowledge, attempt: what_if.ResolveFunction
) -> str:
    """Suggest another wheel and a source build instead of a wheel that lacks code for a target.

    Return "" if planning accepts neither.
    """
    trial = what_if.WhatIf(settings, host, knowledge, attempt)
    suggestions = [
        next(kind(trial), None)
        for kind in (what_if.suggest_other_wheels, what_if.suggest_source_build)
    ]
    return "; or ".join(suggestion.hint for suggestion in suggestions if suggestion)


def _can_new_install_help(trial: what_if.WhatIf) -> bool:
    """Return True if the user may have installed something that helps since the host was pinned.

    A value that a changed setting names is searched again; pinned facts are not.
    """
    if trial.settings.python == "auto" and next(what_if.suggest_pythons(trial), None):
        return True
    return any(
        next(kind(trial), None)
        for kind in (what_if.suggest_toolkit_install, what_if.suggest_other_path_toolkits)
    )
