"""Submodules that an extension's folder was cloned without. That is told before torch is fetched:
the extension is compiled after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tasks.core.check_ids import CheckId
from tasks.core.text_formatting import format_short_list
from tasks.doctor.check_result import (
    CheckResult,
    format_command,
    report_ok,
    report_problem,
    report_unchecked,
    report_warning,
)

if TYPE_CHECKING:
    from tasks.doctor.host_facts import HostFacts, MissingSubmodules
    from tasks.knowledge import Knowledge
    from tasks.lock.opened_profile_io import Profile

_SUBMODULES_ID: CheckId = "submodules"
_SHOWN_FOLDERS = 3


def check_submodules(
    s: HostFacts, profile: Profile | None, knowledge: Knowledge
) -> Iterator[CheckResult]:
    """submodules."""
    if profile is None:
        yield report_unchecked(_SUBMODULES_ID, "the profile does not open")
    elif s.unfetched is None:
        yield report_unchecked(_SUBMODULES_ID)
    elif not s.unfetched:
        yield report_ok(_SUBMODULES_ID, "no extension's folder was cloned without its own")
    else:
        extensions = [stage.job for stage in profile.plan.find_stages("extensions")]
        optional = {job.name for job in extensions if job.optional}
        for one in s.unfetched:
            yield _report_missing_submodules(one, knowledge, optional=one.extension in optional)


def _report_missing_submodules(
    one: MissingSubmodules, knowledge: Knowledge, *, optional: bool
) -> CheckResult:
    """A fork may leave one empty that nothing of it needs: only what is known to be needed stops a
    build.
    """
    needed = _is_submodule_needed(one, knowledge)
    names, several = (
        format_short_list([str(folder) for folder in one.folders], _SHOWN_FOLDERS),
        len(one.folders) > 1,
    )
    are, them = ("are", "them") if several else ("is", "it")
    why = f"does not build without {them}" if needed else f"may need {them}"
    seen = f"{names} {are} empty or not there, and {one.extension} {why}"
    level = report_problem if needed and not optional else report_warning
    return level(_SUBMODULES_ID, seen, _suggest_submodule_update(one), one.extension)


def _is_submodule_needed(one: MissingSubmodules, knowledge: Knowledge) -> bool:
    """The extension itself is one of them, or config/knowledge/extensions.yaml names one."""
    if any(one.source.is_relative_to(folder) for folder in one.folders):
        return True
    fact = knowledge.extensions.get(one.extension)
    return any(one.source / path in one.folders for path in (fact.submodules if fact else ()))


def _suggest_submodule_update(one: MissingSubmodules) -> str:
    tree = f'"{one.tree}"' if " " in str(one.tree) else str(one.tree)
    if one.cloned:
        return format_command(f"git -C {tree} submodule update --init --recursive")
    return f"{tree} is no clone, so git cannot fetch them: take one of git clone --recursive"


_CONFLICTS_ID: CheckId = "conflicts"


def check_merge_conflicts(
    s: HostFacts, profile: Profile | None, knowledge: Knowledge
) -> Iterator[CheckResult]:
    """Report each source folder with merge conflicts."""
    del knowledge
    if profile is None:
        yield report_unchecked(_CONFLICTS_ID, "the profile does not open")
    elif s.unmerged is None:
        yield report_unchecked(_CONFLICTS_ID)
    elif not s.unmerged:
        yield report_ok(_CONFLICTS_ID, "no source folder has merge conflicts")
    for one in s.unmerged or ():
        yield report_problem(_CONFLICTS_ID, one.message, one.hint, one.setting)
