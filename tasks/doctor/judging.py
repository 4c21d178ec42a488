"""All checks, in the order in which a person wants to read them. None can hide another."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from tasks.core.check_ids import ALL_CHECK_IDS, CHECK_IDS, CheckId
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
    from tasks.doctor.host_facts import HostFacts
    from tasks.doctor.symptom import CheckResult
    from tasks.knowledge import Knowledge
    from tasks.lock.profile import Profile

_CHECKS = (
    *(machine, python, programs, compilers, cards, torchchecks),
    *(submodules, conflicts, combination, places, network, workers, trust),
)


def check_host(
    s: HostFacts,
    profile: Profile | None,
    knowledge: Knowledge,
    wanted: Collection[CheckId] = ALL_CHECK_IDS,
) -> tuple[CheckResult, ...]:
    """What the wanted checks say. `profile` is None where it does not open."""
    found = [
        symptom
        for subject in _CHECKS
        for symptom in subject.judge(s, profile, knowledge)
        if symptom.id in wanted
    ]
    return tuple(sorted(found, key=lambda symptom: CHECK_IDS.index(symptom.id)))
