"""Find versions of CUDA, drivers, compilers and tools that are too old."""

import re

from msgspec.structs import replace

from tasks.core.errors import KnowledgeError
from tasks.core.resolution import Combination
from tasks.knowledge.cuda_toolkits import find_driver_floor, find_toolkit
from tasks.knowledge.facts import MinimumVersion
from tasks.knowledge.knowledge_files import Knowledge
from tasks.knowledge.known_problems import is_condition_met, is_version_within
from tasks.knowledge.torch_releases import find_release


def find_too_old_versions(
    knowledge: Knowledge, combination: Combination
) -> tuple[MinimumVersion, ...]:
    """Return the minimum versions for which a known version of `combination` is too old.

    The `level` of a minimum is "info" if a stage of the build works around the problem.
    """
    found = (_check_minimum(knowledge, row, combination) for row in knowledge.minimums)
    return tuple(filter(None, found))


def _check_minimum(
    knowledge: Knowledge, row: MinimumVersion, combination: Combination
) -> MinimumVersion | None:
    current = getattr(combination, row.fact)
    if current is None or not is_condition_met(row.when, combination):
        return None
    minimum = _find_known_minimum(knowledge, row, combination)
    # cpp_extension compares the version of cl.exe: 19.44 for _MSC_VER 1944
    version = f"{current[:2]}.{current[2:]}" if row.least == "msvc_min" else current
    if not minimum or not is_version_within(version, f"<{minimum}"):
        return None
    values = {"torch": combination.torch, "cuda": combination.cuda}
    texts = (row.what, row.fix, row.symptom)
    what, fix, symptom = (text.format(here=current, least=minimum, **values) for text in texts)
    level = "info" if row.cured else row.level
    return replace(row, level=level, what=what, fix=fix, symptom=symptom)


def _find_known_minimum(knowledge: Knowledge, row: MinimumVersion, combination: Combination) -> str:
    """Return the minimum that `row` names, "" if the minimum is unknown or does not apply."""
    cuda, torch = combination.cuda, combination.torch
    try:
        if row.least == "driver_floor":
            return str(find_driver_floor(knowledge, cuda)) if cuda else ""
        if row.least == "toolkit_msvc":
            return str(find_toolkit(knowledge, cuda).msvc_min) if cuda else ""
        release = find_release(knowledge, torch or "")
    except KnowledgeError:  # a release or toolkit that is not in the tables
        return ""
    if release.cxx_std < row.cxx_std:
        return ""
    minimum = str(getattr(release, row.least, row.least))
    if row.least in {"requires_python", "setuptools"}:  # specifiers
        bound = re.search(r">=([\d.]+)", minimum)
        return bound[1] if bound else ""
    return minimum
