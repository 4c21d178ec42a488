"""Looking at what is around a build, as far as it is asked for. It writes nothing, and each part
looks by itself: what cannot be looked at stays None.
"""

from __future__ import annotations

from dataclasses import replace

from tasks.core.check_ids import CheckId
from tasks.doctor.host_facts import Asked, Surroundings
from tasks.doctor.probes import (
    cards,
    conflicts,
    machine,
    network,
    places,
    programs,
    python,
    submodules,
)


def look(asked: Asked, wanted: frozenset[CheckId]) -> Surroundings:
    """Everything that the wanted checks judge. Hosts are asked while the rest is looked at."""
    answers = network.ask(asked, wanted)
    found = Surroundings(asked.host, asked.root)
    for part in (machine, programs, cards, python, submodules, conflicts, places):
        found = replace(found, **part.look(asked, wanted))
    return replace(found, **answers())
