"""Suggest other settings if a resolution fails. Each suggestion is tried before it is shown.

`what_if` tries one or two changes; this module combines more changes and formats suggestions.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from msgspec import structs

from tasks.core.errors import TorchyardError
from tasks.core.model import Host, InstalledToolkit
from tasks.knowledge import Knowledge
from tasks.knowledge.cuda_toolkits import list_capable_toolkits
from tasks.knowledge.facts import Release
from tasks.knowledge.torch_releases import find_release, list_nearest_releases, list_uncovered_archs
from tasks.planning import what_if
from tasks.planning.target_resolution import CUDA_ARCHIVE_URL, find_targets
from tasks.planning.torch_candidates import find_source_reason
from tasks.settings.schema import Settings


@dataclass(frozen=True)
class CombinedChange:
    """Changed values, each "" if unchanged. `installed` is a CUDA release to install, or ""."""

    torch: str = ""
    python: str = ""
    cuda: str = ""
    provider: str = ""
    installed: str = ""

    @property
    def size(self) -> tuple[int, int]:
        """Return the number of changed settings, and True if CUDA must be installed."""
        parts = (self.torch, self.python, self.cuda, self.provider)
        return sum(map(bool, parts)), bool(self.installed)


def suggest_combined_changes(trial: what_if.WhatIf) -> Iterator[what_if.Suggestion]:
    """Yield combined changes that work, smallest first. Source builds come last unless required."""
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


def _has_any_support(trial: what_if.WhatIf) -> bool:
    """Return True if a single toolkit or official wheel supports all targets."""
    knowledge = trial.knowledge
    try:
        targets, _ = find_targets(trial.settings, trial.host, knowledge)
        has_toolkit = bool(list_capable_toolkits(knowledge, targets))
    except TorchyardError:
        return False
    return has_toolkit or any(
        not list_uncovered_archs(knowledge, wheel, targets)
        for release in knowledge.releases.values()
        for wheel in release.wheels
    )


def _list_changes(trial: what_if.WhatIf) -> Iterator[CombinedChange]:
    """Yield all combinations of release, Python, CUDA and provider to try (a few hundred)."""
    settings = trial.settings
    version = settings.torch.version
    releases = []
    with suppress(TorchyardError):
        releases.append(structs.replace(find_release(trial.knowledge, version), patch=version))
    if not find_source_reason(settings) and settings.torch.index == "auto":
        releases += list_nearest_releases(trial.knowledge, version)
    for release in releases:
        torch = structs.replace(settings.torch, version=release.patch)
        changed = replace(trial, settings=structs.replace(settings, torch=torch))
        patch = "" if release.patch == version else release.patch
        cudas = dict.fromkeys(("", "auto", *release.cudas_built))
        cudas.pop(settings.toolkit.version, None)
        for python in what_if.list_fitting_pythons(changed, release):
            for cuda in cudas:
                for provider, installed in _list_providers(settings, cuda, release):
                    yield CombinedChange(patch, python, cuda, provider, installed)


def _list_providers(settings: Settings, cuda: str, found: Release) -> Iterator[tuple[str, str]]:
    """Yield pairs: toolkit.provider ("" for unchanged), and a CUDA release to install or ""."""
    provider = settings.toolkit.provider
    yield "", ""
    version = cuda or settings.toolkit.version
    for candidate in found.cudas_built if version == "auto" else (version,):
        if provider != "pypi":
            yield "", candidate
    if provider != "auto":
        yield "auto", ""


def _try_change(trial: what_if.WhatIf, change: CombinedChange) -> what_if.Suggestion | None:
    host, is_path = trial.host, trial.settings.toolkit.provider == "path"
    if change.python:
        host = replace(host, python=replace(host.python, version=change.python, torch=None))
    if change.installed:
        installed = InstalledToolkit(".", f"{change.installed}.0", is_path)
        host = replace(host, toolkits=(installed, *host.toolkits))
    keys = {"version": change.cuda, "provider": change.provider}
    torch = {"version": change.torch} if change.torch else {}
    toolkit = {key: value for key, value in keys.items() if value}
    resolution = trial.resolve_with(host, torch=torch, toolkit=toolkit)
    if resolution is None or (change.installed and resolution.toolkit.version != change.installed):
        return None
    sections = ((torch, "torch"), (toolkit, "toolkit"))
    assignments = [what_if.format_assignments(keys, name) for keys, name in sections if keys]
    hints = [f"set {' and '.join(assignments)}"] if assignments else []
    if change.python:
        into = bool(trial.settings.install.into)
        hints.append(what_if.format_python_hint(change.python, into=into))
    if change.installed:
        path_hint = f"set toolkit.path to CUDA {change.installed}"
        install_hint = f"install CUDA {change.installed} ({CUDA_ARCHIVE_URL})"
        hints.append(path_hint if is_path else install_hint)
    return what_if.Suggestion(", and ".join(hints), resolution)


_ONE_CHANGE = (
    what_if.suggest_pythons,
    what_if.suggest_path_toolkits,
    what_if.suggest_toolkits,
    what_if.suggest_releases,
    what_if.suggest_source_strategy,
    what_if.suggest_profiles,
)
_TWO_CHANGES = (what_if.suggest_pythons_and_toolkits, what_if.suggest_releases_and_toolkits)


def format_suggestions(
    settings: Settings, host: Host, knowledge: Knowledge, attempt: what_if.ResolveFunction
) -> str:
    """Return all suggestions as one sentence, "" if no change is known to help."""
    hints = [suggestion.hint for suggestion in list_suggestions(settings, host, knowledge, attempt)]
    trial = what_if.WhatIf(settings, host, knowledge, attempt)
    # The user may have installed a Python or a toolkit since the host facts were pinned. A changed
    # setting that names a Python or a toolkit has it searched again; pinned facts are not updated
    installs = [what_if.suggest_toolkit_install, what_if.suggest_other_path_toolkits]
    kinds = [*([what_if.suggest_pythons] if settings.python == "auto" else []), *installs]
    if host.pinned and any(next(kind(trial), None) for kind in kinds):
        hints.append("if you have installed what is missing, run: doit doctor --accept")
    return "; or ".join(hints)


def list_suggestions(
    settings: Settings, host: Host, knowledge: Knowledge, attempt: what_if.ResolveFunction
) -> tuple[what_if.Suggestion, ...]:
    """Return at most one suggestion of each kind.

    Two changes are tried only if no single change helps, and more only if no two changes help.
    """
    trial = what_if.WhatIf(settings, host, knowledge, attempt)
    suggestions: list[what_if.Suggestion | None] = []
    for kinds in (_ONE_CHANGE, _TWO_CHANGES, (suggest_combined_changes,)):
        if not any(suggestions):
            suggestions = [next(kind(trial), None) for kind in kinds]
    if settings.target.gpus == "auto" or not any(suggestions):
        suggestions.append(next(what_if.suggest_fewer_targets(trial), None))
    return tuple(suggestion for suggestion in suggestions if suggestion)


def format_wheel_alternatives(
    settings: Settings, host: Host, knowledge: Knowledge, attempt: what_if.ResolveFunction
) -> str:
    """Return suggestions for a wheel without code for a target: another wheel, a source build."""
    trial = what_if.WhatIf(settings, host, knowledge, attempt)
    kinds = (what_if.suggest_other_wheels, what_if.suggest_source_build)
    suggestions = (next(kind(trial), None) for kind in kinds)
    return "; or ".join(suggestion.hint for suggestion in suggestions if suggestion)
