"""What is known of an extension, for the torch and the cards that it is built for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tasks.core.errors import KnowledgeError
from tasks.core.model import Arch
from tasks.knowledge.combinations import is_condition_met

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tasks.core.resolution import Combination
    from tasks.knowledge.extensionfacts import (
        ArchVariable,
        BuildFailure,
        BuildSetting,
        ExtensionFact,
    )
    from tasks.knowledge.load import Knowledge


def normalize_project_name(name: str) -> str:
    """A name as a package index compares it: `Simple_KNN` is `simple-knn` (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def find_extension(knowledge: Knowledge, name: str) -> ExtensionFact | None:
    """The extension of that name, however it is written."""
    wanted = normalize_project_name(name)
    return next((fact for fact in knowledge.extensions.values() if fact.name == wanted), None)


def find_extension_by_distribution(knowledge: Knowledge, name: str) -> ExtensionFact | None:
    """Return the known extension with that distribution name, None if there is none."""
    wanted = normalize_project_name(name)
    facts = knowledge.extensions.values()
    return next(
        (fact for fact in facts if normalize_project_name(fact.distribution) == wanted), None
    )


def find_extensions_by_source(
    knowledge: Knowledge, git: str, ref: str, sdist: str
) -> list[ExtensionFact]:
    """Return the known extensions with that repository or sdist, those at `ref` first."""
    if sdist:
        fact = find_extension_by_distribution(knowledge, sdist.partition("==")[0])
        return [fact] if fact and fact.pypi == "own" else []
    facts = knowledge.extensions.values()
    found = [
        fact for fact in facts if git and _normalize_git_url(fact.git) == _normalize_git_url(git)
    ]
    return sorted(found, key=lambda fact: fact.ref != ref)


def _normalize_git_url(url: str) -> str:
    """Normalize a git URL, so that all addresses of one repository are equal."""
    bare = re.sub(r"^\w+://|^[\w.-]+@(?=[^/]+:)", "", url.lower()).rpartition("@")[2]
    return re.sub(r"\.git$", "", bare.replace(":", "/").rstrip("/"))


def compute_build_variables(
    settings: Iterable[BuildSetting], archs: ArchVariable | None, met: Combination
) -> dict[str, str]:
    """The variables that a build of `met` needs. `KnowledgeError` for a card that its setup.py
    cannot be told of.
    """
    env: dict[str, str] = {}
    for setting in settings:
        if is_condition_met(setting.when, met):
            env.update(setting.env)
    if archs and met.archs:
        env[archs.variable] = format_arch_variable(archs, met.archs)
    return env


def list_nvcc_options(settings: Iterable[BuildSetting], met: Combination) -> tuple[str, ...]:
    """What nvcc gets last in a build of `met`."""
    return tuple(
        option for each in settings if is_condition_met(each.when, met) for option in each.nvcc
    )


def format_arch_variable(archs: ArchVariable, targets: Sequence[Arch]) -> str:
    """The targets as the variable of a setup.py takes them, `80;120`: of what it knows, the newest
    whose code each of them runs.
    """
    taken = sorted({_find_covering_arch(archs, target) for target in targets})
    return ";".join(f"{arch.major}{arch.minor}" for arch in taken)


def _find_covering_arch(archs: ArchVariable, target: Arch) -> Arch:
    if not archs.known:
        return Arch(target.major, target.minor)
    below = [
        arch for arch in archs.known if arch.major == target.major and arch.minor <= target.minor
    ]
    if not below:
        raise KnowledgeError(
            f"its setup.py makes no code for {target}: it knows {', '.join(map(str, archs.known))}",
            hint="leave the extension out, or that card out of target.gpus",
        )
    return max(below)


def find_build_failure(fact: ExtensionFact, met: Combination) -> BuildFailure | None:
    """Why its own source is known not to build there."""
    return next((each for each in fact.fails if is_condition_met(each.when, met)), None)
