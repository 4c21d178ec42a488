"""Find known problems of a combination of versions. An unknown version meets no condition."""

from __future__ import annotations

import re
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tasks.knowledge.read_facts import find_nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tasks.core.model import Arch
    from tasks.core.resolution import Combination
    from tasks.knowledge.facts import Failure, KnownBad
    from tasks.knowledge.knowledge_files import Knowledge


def find_known_bad(knowledge: Knowledge, combination: Combination) -> tuple[KnownBad, ...]:
    """Return the known problems that `combination` certainly has, in the order of the file.

    A problem that a stage avoids is returned with the level "info". In a condition, {gcc_above} and
    {clang_above} are the first versions that the CUDA toolkit does not support.
    """
    limits = _find_compiler_limits(knowledge, combination.cuda)
    return tuple(
        replace(bad, level="info") if bad.cured else bad
        for bad in knowledge.known_bad
        if any(is_condition_met(condition, combination, limits) for condition in bad.when)
    )


def _find_compiler_limits(knowledge: Knowledge, cuda: str | None) -> dict[str, str]:
    kit = knowledge.toolkits.get(find_nearest(knowledge.toolkits, cuda)) if cuda else None
    if kit is None:
        return {}
    return {"{gcc_above}": str(kit.gcc_max + 1), "{clang_above}": str(kit.clang_max + 1)}


def is_condition_met(
    condition: Mapping[str, Any], combination: Combination, limits: Mapping[str, str] | None = None
) -> bool:
    """Return True if `combination` meets all of `condition`; an unknown version meets nothing.

    `limits` has the values of names in the condition, such as {gcc_above}.
    """
    for key, required in condition.items():
        name = match[0] if (match := re.search(r"\{\w+\}", str(required))) else ""
        if name and name not in (limits or {}):
            return False
        bound = required.replace(name, (limits or {})[name]) if name else required
        if not _is_requirement_met(bound, getattr(combination, key)):
            return False
    return True


@cache
def is_version_within(value: str, specifier: str) -> bool:
    """Return True if every patch of `value` matches: "13.2" is in "<13.3", not in "<13.2.86"."""
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415 - few plans need it

    bounds = SpecifierSet(specifier)
    if (numbers := re.match(r"\d+(?:\.\d+)*", value)) is None:
        return False
    # "13.2" may be older or newer than 13.2.86; 4 is as exact as 4.0
    parts = numbers[0].split(".")
    limits = (re.sub(r"(\.0)+$", "", bound.version).split(".") for bound in bounds)
    if any(len(parts) < len(limit) and limit[: len(parts)] == parts for limit in limits):
        return False
    return numbers[0] in bounds


def _is_requirement_met(
    required: str | bool | list[str], value: str | bool | tuple[Arch, ...] | None
) -> bool:
    if value is None or isinstance(value, bool) or isinstance(required, bool):
        return value is required
    if isinstance(required, list):
        return value in required
    if isinstance(value, tuple):
        return any(is_version_within(f"{arch.major}.{arch.minor}", required) for arch in value)
    return is_version_within(value, required)


def find_run_failure(knowledge: Knowledge, text: str) -> Failure | None:
    """Return the first known failure of a run that matches a line of `text`, or None."""

    def has_match(patterns: tuple[str, ...], line: str) -> bool:
        return any(re.search(pattern, line, re.IGNORECASE) for pattern in patterns)

    failures = [one for one in knowledge.failures if one.phase == "run" and one.rank != "hint"]
    for one, line in product(failures, text.splitlines()):
        if has_match(one.patterns, line) and not has_match(one.unless, line):
            return one
    return None
