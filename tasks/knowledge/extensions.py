"""What is known of an extension, for the torch and the cards that it is built for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tasks.core.errors import KnowledgeError
from tasks.core.model import Arch
from tasks.knowledge.combinations import holds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tasks.core.resolution import Combination
    from tasks.knowledge.extensionfacts import BuildFailure, BuildSetting, ExtensionFact, OwnArchs
    from tasks.knowledge.load import Knowledge


def canonical(name: str) -> str:
    """A name as a package index compares it: `Simple_KNN` is `simple-knn` (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def called(knowledge: Knowledge, name: str) -> ExtensionFact | None:
    """The extension of that name, however it is written."""
    wanted = canonical(name)
    return next((fact for fact in knowledge.extensions.values() if fact.name == wanted), None)


def distributed_as(knowledge: Knowledge, name: str) -> ExtensionFact | None:
    """Return the known extension with that distribution name, None if there is none."""
    wanted = canonical(name)
    facts = knowledge.extensions.values()
    return next((fact for fact in facts if canonical(fact.distribution) == wanted), None)


def from_source(knowledge: Knowledge, git: str, ref: str, sdist: str) -> list[ExtensionFact]:
    """Return the known extensions with that repository or sdist, those at `ref` first."""
    if sdist:
        fact = distributed_as(knowledge, sdist.partition("==")[0])
        return [fact] if fact and fact.pypi == "own" else []
    facts = knowledge.extensions.values()
    found = [fact for fact in facts if git and _repository(fact.git) == _repository(git)]
    return sorted(found, key=lambda fact: fact.ref != ref)


def _repository(url: str) -> str:
    """Normalize a git URL, so that all addresses of one repository are equal."""
    bare = re.sub(r"^\w+://|^[\w.-]+@(?=[^/]+:)", "", url.lower()).rpartition("@")[2]
    return re.sub(r"\.git$", "", bare.replace(":", "/").rstrip("/"))


def variables(
    settings: Iterable[BuildSetting], archs: OwnArchs | None, met: Combination
) -> dict[str, str]:
    """The variables that a build of `met` needs. `KnowledgeError` for a card that its setup.py
    cannot be told of.
    """
    env: dict[str, str] = {}
    for setting in settings:
        if holds(setting.when, met):
            env.update(setting.env)
    if archs and met.archs:
        env[archs.variable] = own_archs(archs, met.archs)
    return env


def nvcc_options(settings: Iterable[BuildSetting], met: Combination) -> tuple[str, ...]:
    """What nvcc gets last in a build of `met`."""
    return tuple(option for each in settings if holds(each.when, met) for option in each.nvcc)


def own_archs(archs: OwnArchs, targets: Sequence[Arch]) -> str:
    """The targets as the variable of a setup.py takes them, `80;120`: of what it knows, the newest
    whose code each of them runs.
    """
    taken = sorted({_taken(archs, target) for target in targets})
    return ";".join(f"{arch.major}{arch.minor}" for arch in taken)


def _taken(archs: OwnArchs, target: Arch) -> Arch:
    if not archs.known:
        return Arch(target.major, target.minor)
    below = [
        arch for arch in archs.known if arch.major == target.major and arch.minor <= target.minor
    ]
    if not below:
        raise KnowledgeError(
            f"its setup.py makes no code for {target}: it knows {', '.join(map(str, archs.known))}",
            todo="leave the extension out, or that card out of target.gpus",
        )
    return max(below)


def failure(fact: ExtensionFact, met: Combination) -> BuildFailure | None:
    """Why its own source is known not to build there."""
    return next((each for each in fact.fails if holds(each.when, met)), None)
