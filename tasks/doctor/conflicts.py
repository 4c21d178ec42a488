"""Merge conflicts in the user's own sources, reported before anything is fetched or compiled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tasks.core.check_ids import CheckId
from tasks.doctor.symptom import Symptom, ok, problem, unchecked

if TYPE_CHECKING:
    from tasks.doctor.host_facts import Surroundings
    from tasks.knowledge import Knowledge
    from tasks.lock.profile import Profile

_ID: CheckId = "conflicts"


def judge(s: Surroundings, profile: Profile | None, knowledge: Knowledge) -> Iterator[Symptom]:
    """Report each source folder with merge conflicts."""
    del knowledge
    if profile is None:
        yield unchecked(_ID, "the profile does not open")
    elif s.unmerged is None:
        yield unchecked(_ID)
    elif not s.unmerged:
        yield ok(_ID, "no source folder has merge conflicts")
    for one in s.unmerged or ():
        yield problem(_ID, one.message, one.hint, one.setting)
