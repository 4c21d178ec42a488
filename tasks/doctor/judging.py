"""All checks, in the order in which a person wants to read them. None can hide another."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from tasks.core.check_ids import ALL, IDS, CheckId
from tasks.doctor import (
    cards,
    combination,
    compilers,
    conflicts,
    machine,
    network,
    places,
    programs,
    python,
    submodules,
    torchchecks,
    trust,
    workers,
)

if TYPE_CHECKING:
    from tasks.doctor.host_facts import Surroundings
    from tasks.doctor.symptom import Symptom
    from tasks.knowledge import Knowledge
    from tasks.lock.profile import Profile

_SUBJECTS = (
    *(machine, python, programs, compilers, cards, torchchecks),
    *(submodules, conflicts, combination, places, network, workers, trust),
)


def judge(
    s: Surroundings,
    profile: Profile | None,
    knowledge: Knowledge,
    wanted: Collection[CheckId] = ALL,
) -> tuple[Symptom, ...]:
    """What the wanted checks say. `profile` is None where it does not open."""
    found = [
        symptom
        for subject in _SUBJECTS
        for symptom in subject.judge(s, profile, knowledge)
        if symptom.id in wanted
    ]
    return tuple(sorted(found, key=lambda symptom: IDS.index(symptom.id)))
