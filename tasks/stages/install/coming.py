"""What is to be installed: the wheels that do not lie there yet, and what they need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from tasks.core.errors import BuildError
from tasks.stages.install.target.environment import Target
from tasks.stages.install.target.resolving import Installer, resolve
from tasks.stages.install.transaction.journal import Exchange
from tasks.stages.install.transaction.lying import record_digest
from tasks.stages.install.wheels import Chosen
from tasks.system.voice import tick, warn
from tasks.wheels.files import requirements

Versions = Mapping[str, str]


def coming(
    by: Installer, target: Target, chosen: Sequence[Chosen], held: Exchange | None
) -> Versions:
    """Name → version of all of it. Nothing that is there moves for an extension: of what that asks
    for only what is not there at all is installed.
    """
    built = {one.name for one in chosen}
    fresh = {one.name: one.version for one in chosen if not _lies(one, held)}
    torch, *others = chosen
    wanted = str(torch.path) if torch.name in fresh else f"{torch.name}=={torch.version}"
    again = [torch.name] if torch.name in fresh else []
    more = [asked for one in others if one.name in fresh for asked in _missing(one, target, built)]
    tick("finding out what is needed there")
    needs = resolve(by, [wanted], again)
    if more:
        stays = replace(by, constraints=(*by.constraints, *_pins(target, needs, built)))
        try:
            needs = resolve(stays, [wanted, *more], again)
        except BuildError as error:
            warn(
                f"the extensions ask for {', '.join(more)}, which was not to be had beside what "
                f"is there: {error.what}"
            )
    return {**{name: version for name, version in needs.items() if name not in built}, **fresh}


def _pins(target: Target, needs: Versions, built: set[str]) -> Iterator[str]:
    """What torch needs, and what else is there, as it is; but not what gives way to a wheel."""
    there = {name: one.version for name, one in target.installed().items()}
    for name, version in {**there, **needs}.items():
        with suppress(InvalidVersion):  # no installer would read it
            if name not in built:
                yield f"{name}=={Version(version)}"


def _lies(one: Chosen, held: Exchange | None) -> bool:
    """Whether it was put there, and nobody changed that since."""
    part = held.parts.get(one.name) if held else None
    if held is None or part is None or part.wheel != one.sha256:
        return False
    return record_digest(Path(held.prefix, part.path)) == part.record


def _missing(one: Chosen, target: Target, built: set[str]) -> Iterator[str]:
    have = {name: there.version for name, there in target.installed().items()}
    for asked in requirements.of_wheel(one.path, target.said.version):
        name = canonicalize_name(Requirement(asked).name)
        if name in built:
            continue
        if name not in have:
            yield asked
        elif requirements.lacking([asked], have):
            warn(f"{one.name} asks for {asked}, and {have[name]} is there and stays")
