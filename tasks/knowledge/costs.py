"""Estimate the time, disk usage and memory of a strategy from the figures in costs.yaml.

Each time is a range from the measured time to the longest that is likely.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from msgspec import Struct, field

from tasks.core.model import Strategy
from tasks.knowledge.knowledge_files import Knowledge
from tasks.knowledge.resource_estimates import DiskUsage, Range, add_range_multiple


@dataclass(frozen=True)
class Cost:
    """The time, disk usage and memory of a strategy.

    `seconds` is the least and the most wall-clock time, `None` if unknown. `core_seconds` is the
    part of `seconds` that more cores shorten. `disk_usage` is the usage after the build, `None` if
    unknown. `memory_mib` is the memory of the largest process. `known` says how the numbers were
    found; for mere estimates, it begins with "unverified".
    """

    seconds: tuple[int, int] | None
    disk_usage: DiskUsage | None
    memory_mib: int
    known: str
    core_seconds: tuple[int, int] = (0, 0)

    def scale_to_cores(self, cores: int) -> Cost:
        """Return the cost on that number of cores. The result cannot be scaled again."""
        if self.seconds is None:
            return self
        times = zip(self.seconds, self.core_seconds, strict=True)
        least, most = (total - core + math.ceil(core / max(cores, 1)) for total, core in times)
        return replace(self, seconds=(least, most), core_seconds=(0, 0))


def estimate_cost(knowledge: Knowledge, strategy: Strategy, archs: int, extensions: int) -> Cost:
    """Return the cost on one core, for the numbers of archs (0: a CPU build) and extensions."""
    facts = {(row.strategy, row.cuda): row for row in knowledge.costs}
    if (fact := facts.get((strategy, archs > 0))) is None:
        return Cost(None, None, 0, "unverified: no cost is known")
    extension_cost = knowledge.extension_cost
    least, most = add_range_multiple(fact.core_seconds, fact.arch_seconds, max(archs - 1, 0))
    fixed_seconds = add_range_multiple(fact.seconds, extension_cost.seconds, extensions)
    notes = [fact.status, fact.uncertain]
    if extensions:
        notes += [f"extensions {extension_cost.status}", extension_cost.uncertain]
    return Cost(
        seconds=(fixed_seconds[0] + least, fixed_seconds[1] + most),
        disk_usage=fact.disk_usage.add_multiple(extension_cost.disk_usage, extensions),
        memory_mib=max(fact.memory_mib, extension_cost.memory_mib if extensions else 0),
        known="; ".join(filter(None, notes)),
        core_seconds=(least, most),
    )


class ExtensionCost(Struct, frozen=True, kw_only=True):
    """The additional cost of building one extension.

    `seconds` is the least and the most time. `status` is the evidence. `uncertain` says what was
    not checked.
    """

    seconds: Range
    disk_usage: DiskUsage = field(name="room_mib")
    memory_mib: int
    status: str
    uncertain: str


class CostFact(ExtensionCost, frozen=True, kw_only=True):
    """The cost of one strategy. Each time is the least and the most time in seconds.

    `core_seconds` is the compiler time for the first arch, `arch_seconds` for each further one,
    both summed over all cores. `seconds` is all other time.
    """

    strategy: Strategy
    cuda: bool
    core_seconds: Range
    arch_seconds: Range = (0, 0)
