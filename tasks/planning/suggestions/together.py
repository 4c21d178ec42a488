"""Suggest another torch, CUDA and Python together, if changing one or two of them does not help."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tasks.core.errors import BuildError
from tasks.core.model import Arch, Host, ToolkitFound
from tasks.knowledge.facts import Release
from tasks.knowledge.releases import nearest, release
from tasks.knowledge.toolkits import toolkits_for
from tasks.knowledge.wheels import missing
from tasks.planning.suggestions.pythons import fitting_pythons, python_hint
from tasks.planning.suggestions.trial import Remedy, Trial
from tasks.planning.targets import find_targets
from tasks.planning.toolkit import ARCHIVE
from tasks.planning.torch import wants_source
from tasks.settings.schema import Settings


@dataclass(frozen=True)
class Change:
    """The values that differ from the settings and the host, "" for those that do not. `installed`
    is a CUDA release that has to be installed first.
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


def together(trial: Trial) -> Iterator[Remedy]:
    """Yield the working changes, the smallest first; wheels before builds unless the settings
    require a build.
    """
    if trial.settings.torch.strategy == "existing" or not _is_possible(trial):
        return
    builds = []
    for change in sorted(_changes(trial), key=lambda change: change.size):
        remedy = _tried(trial, change)
        if remedy and (remedy.choice.strategy != "source" or _wants_build(trial.settings)):
            yield remedy
        elif remedy:
            builds.append(remedy)
    yield from builds


def _wants_build(settings: Settings) -> bool:
    return settings.torch.strategy == "source" or bool(wants_source(settings))


def _is_possible(trial: Trial) -> bool:
    """Return True if one toolkit or one official wheel supports every target."""
    knowledge = trial.knowledge
    try:
        targets, _ = find_targets(trial.settings, trial.host, knowledge)
        if toolkits_for(knowledge, targets):
            return True
    except BuildError:
        return False
    return _in_a_wheel(trial, targets)


def _in_a_wheel(trial: Trial, targets: tuple[Arch, ...]) -> bool:
    return any(
        not missing(trial.knowledge, wheel, targets)
        for found in trial.knowledge.releases.values()
        for wheel in found.wheels
    )


def _changes(trial: Trial) -> Iterator[Change]:
    """Yield every combination worth trying: a few hundred at most."""
    for found in _releases(trial):
        torch = "" if found.patch == trial.settings.torch.version else found.patch
        asked = replace(trial, settings=_with_torch(trial.settings, torch))
        for python in fitting_pythons(asked, found):
            for cuda in _cudas(trial.settings, found):
                for provider, installed in _providers(trial.settings, cuda, found):
                    yield Change(torch, python, cuda, provider, installed)


def _releases(trial: Trial) -> Iterator[Release]:
    settings = trial.settings
    try:
        found = release(trial.knowledge, settings.torch.version)
        yield replace(found, patch=settings.torch.version)
    except BuildError:
        pass
    if not wants_source(settings) and settings.torch.index == "auto":
        yield from nearest(trial.knowledge, settings.torch.version)


def _with_torch(settings: Settings, torch: str) -> Settings:
    if not torch:
        return settings
    changed = settings.torch.model_copy(update={"version": torch})
    return settings.model_copy(update={"torch": changed})


def _cudas(settings: Settings, found: Release) -> tuple[str, ...]:
    others = [cuda for cuda in ("auto", *found.cudas_built) if cuda != settings.toolkit.version]
    return ("", *others)


def _providers(settings: Settings, cuda: str, found: Release) -> Iterator[tuple[str, str]]:
    """Yield toolkit.provider and the CUDA release to install; "" for each that stays as it is."""
    provider = settings.toolkit.provider
    yield "", ""
    version = cuda or settings.toolkit.version
    for one in found.cudas_built if version == "auto" else (version,):
        if provider != "pypi":
            yield "", one
    if provider != "auto":
        yield "auto", ""


def _tried(trial: Trial, change: Change) -> Remedy | None:
    toolkit = {"version": change.cuda, "provider": change.provider}
    choice = trial.of(
        _host(trial, change),
        torch={"version": change.torch} if change.torch else {},
        toolkit={key: value for key, value in toolkit.items() if value},
    )
    if choice is None or (change.installed and choice.toolkit.version != change.installed):
        return None
    return Remedy(_todo(trial.settings, change), choice)


def _host(trial: Trial, change: Change) -> Host:
    host = trial.host
    if change.python:
        host = replace(host, python=replace(host.python, version=change.python, torch=None))
    if change.installed:
        own = trial.settings.toolkit.provider == "path"
        kit = ToolkitFound(".", f"{change.installed}.0", own)
        host = replace(host, toolkits=(kit, *host.toolkits))
    return host


def _todo(settings: Settings, change: Change) -> str:
    """`set torch.version: "2.9.1" and toolkit.version: auto, and install CUDA 12.8 (...)`."""
    keys = {
        "torch.version": change.torch,
        "toolkit.version": change.cuda,
        "toolkit.provider": change.provider,
    }
    named = [
        f"{key}: {value}" if value.isalpha() else f'{key}: "{value}"'
        for key, value in keys.items()
        if value
    ]
    parts = [f"set {' and '.join(named)}"] if named else []
    if change.python:
        parts.append(python_hint(change.python, into=bool(settings.install.into)))
    if change.installed and settings.toolkit.provider == "path":
        parts.append(f"name CUDA {change.installed} in toolkit.path")
    elif change.installed:
        parts.append(f"install CUDA {change.installed} ({ARCHIVE})")
    return ", and ".join(parts)
