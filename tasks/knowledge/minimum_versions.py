"""Find versions of CUDA, drivers, compilers and tools that are too old."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tasks.core.errors import KnowledgeError
from tasks.knowledge.cuda_toolkits import find_driver_floor, find_toolkit
from tasks.knowledge.known_problems import Finding, is_condition_met, is_version_within
from tasks.knowledge.torch_releases import find_release

if TYPE_CHECKING:
    from tasks.core.resolution import Combination
    from tasks.knowledge.facts import MinimumVersion
    from tasks.knowledge.knowledge_files import Knowledge


def find_too_old_versions(knowledge: Knowledge, combination: Combination) -> tuple[Finding, ...]:
    """Return everything in `combination` that is certainly too old, in file order.

    The message names the current and the required version.
    """
    findings = (_check_minimum(knowledge, row, combination) for row in knowledge.minimums)
    return tuple(finding for finding in findings if finding)


def _check_minimum(
    knowledge: Knowledge, row: MinimumVersion, combination: Combination
) -> Finding | None:
    current = getattr(combination, row.fact)
    if current is None or not is_condition_met(row.when, combination):
        return None
    minimum = _find_known_minimum(knowledge, row, combination)
    # cpp_extension compares the version of cl.exe: 19.44 for _MSC_VER 1944
    version = f"{current[:2]}.{current[2:]}" if row.least == "msvc_min" else current
    if not minimum or not is_version_within(version, f"<{minimum}"):
        return None
    values = {
        "here": current,
        "least": minimum,
        "torch": combination.torch,
        "cuda": combination.cuda,
    }
    return Finding(
        id=row.id,
        level="info" if row.cured else row.level,
        message=row.what.format(**values),
        fix=row.fix.format(**values),
        status=row.status,
        fixed_by=row.cured,
        symptom=row.symptom.format(**values),
    )


def _find_known_minimum(knowledge: Knowledge, row: MinimumVersion, combination: Combination) -> str:
    """Return the minimum that `row` names, "" if it is not known or does not apply."""
    cuda, torch = combination.cuda, combination.torch
    try:
        if row.least == "driver_floor":
            return str(find_driver_floor(knowledge, cuda)) if cuda else ""
        if row.least == "toolkit_msvc":
            return str(find_toolkit(knowledge, cuda).msvc_min) if cuda else ""
        return _find_release_minimum(knowledge, row, torch) if torch else ""
    except KnowledgeError:  # a release or toolkit that is not in the tables
        return ""


def _find_release_minimum(knowledge: Knowledge, row: MinimumVersion, torch: str) -> str:
    release = find_release(knowledge, torch)
    if release.cxx_std < row.cxx_std:
        return ""
    minimum = str(getattr(release, row.least, row.least))
    if row.least in {"requires_python", "setuptools"}:  # specifiers
        bound = re.search(r">=([\d.]+)", minimum)
        return bound[1] if bound else ""
    return minimum
