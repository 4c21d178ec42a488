"""Merge conflicts in the user's own sources, reported before anything is fetched or compiled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tasks.core.check_ids import CheckId
from tasks.doctor.symptom import CheckResult, report_ok, report_problem, report_unchecked

if TYPE_CHECKING:
    from tasks.doctor.host_facts import HostFacts
    from tasks.knowledge import Knowledge
    from tasks.lock.profile import Profile

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
