"""What is too old: for a PyTorch release, for a CUDA toolkit.

The numbers are those of pytorch.yaml and toolkits.yaml; what breaks below them is in
combinations.yaml. As with the known-bad combinations, a fact that is not known judges nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tasks.core.errors import KnowledgeError
from tasks.knowledge.combinations import Finding, holds, within
from tasks.knowledge.releases import release
from tasks.knowledge.toolkits import driver_floor, toolkit

if TYPE_CHECKING:
    from tasks.core.resolution import Combination
    from tasks.knowledge.facts import Minimum
    from tasks.knowledge.load import Knowledge


def below(knowledge: Knowledge, combination: Combination) -> tuple[Finding, ...]:
    """Everything of `combination` that is too old for certain, in the order of combinations.yaml.

    `what` names what is here and what is asked for.
    """
    found = (_judged(knowledge, row, combination) for row in knowledge.minimums)
    return tuple(finding for finding in found if finding)


def _judged(knowledge: Knowledge, row: Minimum, combination: Combination) -> Finding | None:
    here = getattr(combination, row.fact)
    if here is None or not holds(row.when, combination):
        return None
    least = _least(knowledge, row, combination)
    if not least or not within(_comparable(row, here), f"<{least}"):
        return None
    words = {"here": here, "least": least, "torch": combination.torch, "cuda": combination.cuda}
    return Finding(
        id=row.id,
        level="info" if row.cured else row.level,
        what=row.what.format(**words),
        fix=row.fix.format(**words),
        status=row.status,
        cured=row.cured,
        symptom=row.symptom.format(**words),
    )


def _least(knowledge: Knowledge, row: Minimum, combination: Combination) -> str:
    """The number that `row` names, "" where it is not known or does not apply."""
    try:
        return _number(knowledge, row, combination)
    except KnowledgeError:  # a release or toolkit that is not in the tables
        return ""


def _number(knowledge: Knowledge, row: Minimum, combination: Combination) -> str:
    if row.least in {"driver_floor", "toolkit_msvc"}:
        return _of_toolkit(knowledge, row, combination.cuda) if combination.cuda else ""
    return _of_release(knowledge, row, combination.torch) if combination.torch else ""


def _of_toolkit(knowledge: Knowledge, row: Minimum, cuda: str) -> str:
    if row.least == "driver_floor":
        return str(driver_floor(knowledge, cuda))
    return str(toolkit(knowledge, cuda).msvc[0])


def _of_release(knowledge: Knowledge, row: Minimum, torch: str) -> str:
    known = release(knowledge, torch)
    if known.cxx_std < row.cxx_std:
        return ""
    least = str(getattr(known, row.least, row.least))
    if row.least in {"requires_python", "setuptools"}:  # specifiers
        bound = re.search(r">=([\d.]+)", least)
        return bound[1] if bound else ""
    return least


def _comparable(row: Minimum, here: str) -> str:
    """cpp_extension asks for cl.exe's own version: 19.44 where _MSC_VER is 1944."""
    return f"{here[:2]}.{here[2:]}" if row.least == "msvc_min" else here
