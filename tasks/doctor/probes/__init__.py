"""Looking at what is around a build, as far as it is asked for. It writes nothing, and each part
looks by itself: what cannot be looked at stays None.
"""

from __future__ import annotations

from dataclasses import replace

from tasks.core.check_ids import CheckId
from tasks.doctor.host_facts import HostFacts, ProbeRequest
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


def read_host_facts(asked: ProbeRequest, wanted: frozenset[CheckId]) -> HostFacts:
    """Everything that the wanted checks judge. Hosts are asked while the rest is looked at."""
    answers = network.start_network_probes(asked, wanted)
    found = HostFacts(asked.host, asked.root)
    for part in (machine, programs, cards, python, submodules, conflicts, places):
        found = replace(found, **part.look(asked, wanted))
    return replace(found, **answers())
