"""Whether the wheels are for that environment, and what else there will not like them. It changes
nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import get_args

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tasks.core.dependencies import is_requirement_applicable, parse_requirements
from tasks.core.errors import BadArtifactError, TorchyardError
from tasks.settings.values import CompanionName
from tasks.stages.install.target.environment import Distribution, EnvironmentInfo, TargetEnvironment
from tasks.stages.install.target.interpreter import SETTING_KEY, VENV_HINT, build_unwritable_error
from tasks.stages.install.wheels import SelectedWheel

_COMPANION_HINT = "it may not import: companions: [{}] in config/local.yaml brings the one for it"


def require_compatible_target(target: TargetEnvironment, wheels: Iterable[SelectedWheel]) -> None:
    """Raise a `BuildError` for what can be known before a file is written."""
    said = target.info
    if said.managed:
        raise TorchyardError(
            f"{target.python} is managed by the system, which says that nobody else installs "
            "there; nothing was changed",
            location=said.managed,
            hint=VENV_HINT,
        )
    for wheel in wheels:
        if not {str(tag) for tag in wheel.tags} & set(said.tags):
            raise build_unfit_error(target, wheel)
    for folder in (said.purelib, said.platlib, said.scripts):
        if Path(folder).is_dir() and not os.access(folder, os.W_OK | os.X_OK):
            raise build_unwritable_error(folder)


def build_unfit_error(target: TargetEnvironment, wheel: SelectedWheel) -> BadArtifactError:
    """For another Python, another ABI or another platform."""
    named = ", ".join(sorted(map(str, wheel.tags)))
    return BadArtifactError(
        f"{wheel.path.name} is for {named}, and {target.python} takes {target.info.tags[0]}; "
        "nothing was changed",
        location=SETTING_KEY,
        hint=f"set python: {target.python}, so that wheels are made for it, or name another one",
    )


def list_install_warnings(target: TargetEnvironment, coming: Mapping[str, str]) -> Iterator[str]:
    """What a person has to know where `coming` (normalized name → version) is installed."""
    torch = target.list_installed().get("torch")
    if torch and (torch.installer == "conda" or _has_conda_torch(target)):
        yield (
            f"conda put torch {torch.version} there, and is not told of the one that takes its "
            "place: conda install and conda update may mix the two. To have conda let go of it: "
            "put it back (doit restore), conda remove --force pytorch, and build again"
        )
    if target.info.user_torch:
        yield (
            f"{target.info.user_torch} goes before what is installed into {target.prefix}: "
            f"{target.python} -m pip uninstall torch, or set PYTHONNOUSERSITE=1"
        )
    yield from describe_conflicts(target.info, coming)


def _has_conda_torch(target: TargetEnvironment) -> bool:
    meta = target.prefix / "conda-meta"
    return any(meta.glob("pytorch-[0-9]*.json")) or any(meta.glob("libtorch-*.json"))


def describe_conflicts(said: EnvironmentInfo, coming: Mapping[str, str]) -> Iterator[str]:
    """What stays there and asks for another version than is coming. Pure."""
    staying = [one for one in said.distributions if canonicalize_name(one.name) not in coming]
    for one in sorted(staying, key=lambda one: one.name):
        for wanted in _find_unmet_requirements(said, one, coming):
            name = canonicalize_name(wanted.name)
            told = f"{one.name} {one.version} wants {wanted}, and {coming[name]} is installed"
            yield f"{told}; {_COMPANION_HINT.format(one.name)}" if _is_companion(one) else told


def _is_companion(one: Distribution) -> bool:
    return canonicalize_name(one.name) in get_args(CompanionName)


def _find_unmet_requirements(
    said: EnvironmentInfo, one: Distribution, coming: Mapping[str, str]
) -> Iterator[Requirement]:
    for wanted in parse_requirements(one.requires):
        version = coming.get(canonicalize_name(wanted.name))
        if version is None or not is_requirement_applicable(wanted, said.markers):
            continue
        wanted.marker = None  # it was said to hold
        if not wanted.specifier.contains(version, prereleases=True):
            yield wanted


def compare_installed(
    before: TargetEnvironment, after: TargetEnvironment, coming: Mapping[str, str]
) -> Sequence[str]:
    """What lies there and was not meant to: the list before, the list after, and what came. Pure
    but for the lists.
    """
    expected = {name: one.version for name, one in before.list_installed().items()} | dict(coming)
    found = {name: one.version for name, one in after.list_installed().items()}
    names = sorted(expected.keys() | found.keys())
    return [
        f"{name} {found.get(name, 'is gone')} (meant: {expected.get(name, 'none')})"
        for name in names
        if found.get(name) != expected.get(name)
    ]
