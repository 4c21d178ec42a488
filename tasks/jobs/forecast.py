"""Estimate the remaining time of a build from the recorded cost of each output.

The cost of an output is the number of seconds that it took in an earlier build. The speed is the
cost of the finished outputs per second since the build began. The estimate is the cost of the
remaining outputs divided by the speed. An output without a record costs the median of its kind.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median

from tasks.core.ninja_progress import find_step_output

_KNOWN_SHARE = 0.5  # minimum share of the work with a recorded cost
_STARTED_SHARE = 0.03  # share of the work after which the speed is meaningful


@dataclass
class Forecast:
    """The remaining work of one build, from which its remaining time is estimated.

    `planned` are the outputs to build. `costs` maps outputs to their seconds in earlier builds.
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
        """Record the output in a line of Ninja; `now` is in seconds of a monotonic clock.

        The measured time begins with the first planned output: code generation does not count.
        """
        cost = self._remaining.pop(find_step_output(line), None)
        if cost is None:
            return
        if self._began is None:
            self._began = now - cost
        self._done += cost

    def estimate_remaining(self, now: float) -> float | None:
        """Return the remaining seconds, None if too little is recorded or finished."""
        if self._began is None or not self._known or self._done < _STARTED_SHARE * self._total:
            return None
        elapsed = now - self._began
        return sum(self._remaining.values()) * elapsed / self._done if elapsed > 0 else None


def _parse_output_kind(output: str) -> str:
    """Return the kind of an output (`.cu.o`, `.so`); outputs of one kind have similar costs."""
    name = output.replace("\\", "/").rpartition("/")[2]
    return "".join(f".{part}" for part in name.split(".")[1:][-2:])
