"""What is to be installed: the wheels that do not lie there yet, and what they need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from tasks.core.errors import TorchyardError
from tasks.stages.install.target.environment import TargetEnvironment
from tasks.stages.install.target.resolving import Installer, resolve_requirements
from tasks.stages.install.transaction.journal import InstallRecord
from tasks.stages.install.transaction.lying import compute_record_digest
from tasks.stages.install.wheels import SelectedWheel
from tasks.system.voice import print_warning, show_progress
from tasks.wheels.files import requirements

Versions = Mapping[str, str]


def resolve_install(
    by: Installer,
    target: TargetEnvironment,
    chosen: Sequence[SelectedWheel],
    held: InstallRecord | None,
) -> Versions:
    """Name → version of all of it. Nothing that is there moves for an extension: of what that asks
    for only what is not there at all is installed.
    """
    built = {one.name for one in chosen}
    fresh = {one.name: one.version for one in chosen if not _is_installed(one, held)}
    torch, *others = chosen
    wanted = str(torch.path) if torch.name in fresh else f"{torch.name}=={torch.version}"
    again = [torch.name] if torch.name in fresh else []
    more = [
        asked
        for one in others
        if one.name in fresh
        for asked in _list_missing_requirements(one, target, built)
    ]
    show_progress("finding out what is needed there")
    needs = resolve_requirements(by, [wanted], again)
    if more:
        stays = replace(by, constraints=(*by.constraints, *_list_pins(target, needs, built)))
        try:
            needs = resolve_requirements(stays, [wanted, *more], again)
        except TorchyardError as error:
            print_warning(
                f"the extensions ask for {', '.join(more)}, which was not to be had beside what "
                f"is there: {error.message}"
            )
    return {**{name: version for name, version in needs.items() if name not in built}, **fresh}


def _list_pins(target: TargetEnvironment, needs: Versions, built: set[str]) -> Iterator[str]:
    """What torch needs, and what else is there, as it is; but not what gives way to a wheel."""
    there = {name: one.version for name, one in target.list_installed().items()}
    for name, version in {**there, **needs}.items():
        with suppress(InvalidVersion):  # no installer would read it
            if name not in built:
                yield f"{name}=={Version(version)}"


def _is_installed(one: SelectedWheel, held: InstallRecord | None) -> bool:
    """Whether it was put there, and nobody changed that since."""
    part = held.parts.get(one.name) if held else None
    if held is None or part is None or part.wheel != one.sha256:
        return False
    return compute_record_digest(Path(held.prefix, part.path)) == part.record


def _list_missing_requirements(
    one: SelectedWheel, target: TargetEnvironment, built: set[str]
) -> Iterator[str]:
    have = {name: there.version for name, there in target.list_installed().items()}
    for asked in requirements.read_wheel_requirements(one.path, target.info.version):
        name = canonicalize_name(Requirement(asked).name)
        if name in built:
            continue
        if name not in have:
            yield asked
        elif requirements.find_missing_requirements([asked], have):
            print_warning(f"{one.name} asks for {asked}, and {have[name]} is there and stays")
