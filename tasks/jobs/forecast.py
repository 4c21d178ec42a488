"""Estimate the remaining time of a build from the recorded cost of each output.

Work is counted in the seconds that an output took last time. The speed is the work finished per
second since the build began; cores, throttling and available memory all affect it. The estimate is
the remaining work divided by the speed. An output without a record costs the median of its kind.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median

from tasks.core.ninja_progress import find_step_output

_KNOWN_SHARE = 0.5  # share of the work that must have a recorded cost
_STARTED_SHARE = 0.03  # share of the work after which the speed is meaningful


@dataclass
class Forecast:
    """The estimate of the remaining time of one build.

    `planned` are the outputs to build, `costs` the seconds by output from earlier builds.
    """

    planned: Iterable[str]
    costs: Mapping[str, float]
    _remaining: dict[str, float] = field(default_factory=dict)
    _total: float = 0.0
    _done: float = 0.0
    _began: float | None = None
    _known: bool = False

    def __post_init__(self) -> None:
        planned = tuple(dict.fromkeys(self.planned))
        known_costs = {output: self.costs[output] for output in planned if output in self.costs}
        costs_by_kind: defaultdict[str, list[float]] = defaultdict(list)
        for output, cost in self.costs.items():
            costs_by_kind[_parse_output_kind(output)].append(cost)
        medians = {kind: median(costs) for kind, costs in costs_by_kind.items()}
        default = median(self.costs.values()) if self.costs else 0.0
        for output in planned:
            typical_cost = medians.get(_parse_output_kind(output), default)
            self._remaining[output] = known_costs.get(output, typical_cost)
        self._total = sum(self._remaining.values())
        self._known = bool(known_costs) and sum(known_costs.values()) >= _KNOWN_SHARE * self._total

    def finish_step(self, line: str, now: float) -> None:
        """Record a line that Ninja prints after a step; `now` is in seconds of a monotonic clock.

        Work before the first known output (code generation) does not count towards the speed.
        """
        cost = self._remaining.pop(find_step_output(line), None)
        if cost is None:
            return
        if self._began is None:
            self._began = now - cost
        self._done += cost

    def estimate_remaining(self, now: float) -> float | None:
        """Return the remaining seconds, None if no estimate is possible."""
        if self._began is None or not self._known or self._done < _STARTED_SHARE * self._total:
            return None
        elapsed = now - self._began
        return sum(self._remaining.values()) * elapsed / self._done if elapsed > 0 else None


def _parse_output_kind(output: str) -> str:
    """Return `.cu.o`, `.cpp.o` or `.so`: outputs of one kind cost about the same."""
    name = output.replace("\\", "/").rpartition("/")[2]
    return "".join(f".{part}" for part in name.split(".")[1:][-2:])
