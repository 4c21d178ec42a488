"""Find combinations that are known not to work.

A fact that is not known meets no condition.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tasks.core.model import Arch
    from tasks.core.resolution import Combination
    from tasks.knowledge.facts import Failure, FixStage, Level
    from tasks.knowledge.knowledge_files import Knowledge


@dataclass(frozen=True)
class Finding:
    """A known-bad combination that applies. `fix` is what to do, `status` the evidence.

    `fixed_by` is the stage that fixes it, "" if none does. Such a finding is only information: its
    `level` is "info", whatever the entry says.
    """

    id: str
    level: Level
    message: str
    fix: str
    status: str
    fixed_by: FixStage = ""
    symptom: str = ""


def find_known_bad(knowledge: Knowledge, combination: Combination) -> tuple[Finding, ...]:
    """Return every known-bad entry that `combination` certainly meets, in the order of the file."""
    return tuple(
        Finding(
            id=bad.id,
            level="info" if bad.cured else bad.level,
            message=bad.what,
            fix=bad.fix,
            status=bad.status,
            fixed_by=bad.cured,
            symptom=bad.symptom,
        )
        for bad in knowledge.known_bad
        if any(is_condition_met(condition, combination) for condition in bad.when)
    )


def is_condition_met(condition: Mapping[str, Any], combination: Combination) -> bool:
    """Return True if every key of `condition` certainly holds."""
    return all(
        _is_requirement_met(requirement, getattr(combination, key))
        for key, requirement in condition.items()
    )


@cache
def is_version_within(value: str, wanted: str) -> bool:
    """Return True if a version is certainly within a specifier: "13.2" is not within "<13.2.86"."""
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415 - few plans ask

    numbers = re.match(r"\d+(?:\.\d+)*", value)
    bounds = SpecifierSet(wanted)
    if numbers is None or any(_is_less_precise(numbers[0], bound.version) for bound in bounds):
        return False
    return numbers[0] in bounds


def _is_requirement_met(
    wanted: str | bool | list[str], value: str | bool | tuple[Arch, ...] | None
) -> bool:
    if value is None or isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    if isinstance(wanted, list):
        return value in wanted
    if isinstance(value, tuple):
        return any(is_version_within(f"{arch.major}.{arch.minor}", wanted) for arch in value)
    return is_version_within(value, wanted)


def _is_less_precise(value: str, bound: str) -> bool:
    # "13.2" may be older or newer than 13.2.86; 4 is as exact as 4.0.
    value_parts, bound_parts = value.split("."), re.sub(r"(\.0)+$", "", bound).split(".")
    return len(value_parts) < len(bound_parts) and bound_parts[: len(value_parts)] == value_parts


def find_run_failure(knowledge: Knowledge, text: str) -> Failure | None:
    """Return the first known failure of a run that matches a line of `text`, or None."""
    candidates = (
        candidate
        for candidate in knowledge.failures
        if candidate.phase == "run" and candidate.rank != "hint"
    )
    return next((failure for failure in candidates if _is_failure_in_text(failure, text)), None)


def _is_failure_in_text(failure: Failure, text: str) -> bool:
    return any(
        _is_pattern_in_line(failure.patterns, line)
        and not _is_pattern_in_line(failure.unless, line)
        for line in text.splitlines()
    )


def _is_pattern_in_line(patterns: tuple[str, ...], line: str) -> bool:
    return any(re.search(pattern, line, re.IGNORECASE) for pattern in patterns)
