"""Estimate the remaining time of a build from the recorded cost of each output.

The cost of an output is the seconds that it took in an earlier build or, if this is unknown, the
median cost of the outputs with the same suffix. The estimate is the cost of all remaining outputs,
divided by the cost that the build has finished per second so far.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import PureWindowsPath
from statistics import median

from tasks.core.ninja_progress import find_step_output

_KNOWN_SHARE = 0.5  # minimum share of the work with a recorded cost
_STARTED_SHARE = 0.03  # share of the work after which the speed is meaningful


class Forecast:
    """An estimate of the remaining build time, from the seconds per output in earlier builds."""

    def __init__(self, planned: Iterable[str], costs: Mapping[str, float]) -> None:
        costs_by_kind: defaultdict[str, list[float]] = defaultdict(list)
        for output, cost in costs.items():
            costs_by_kind[_parse_output_kind(output)].append(cost)
        medians = {kind: median(known) for kind, known in costs_by_kind.items()}
        default = median(costs.values()) if costs else 0.0
        self._remaining = {
            output: costs.get(output, medians.get(_parse_output_kind(output), default))
            for output in planned
        }
        self._total = sum(self._remaining.values())
        known_costs = [costs[output] for output in self._remaining if output in costs]
        self._known = bool(known_costs) and sum(known_costs) >= _KNOWN_SHARE * self._total
        self._done = 0.0
        self._began: float | None = None

    def finish_step(self, line: str, now: float) -> None:
        """Record that Ninja has finished the output in `line`, at the monotonic time `now`."""
        cost = self._remaining.pop(find_step_output(line), None)
        if cost is None:
            return
        if self._began is None:  # code generation before the first planned output does not count
            self._began = now - cost
        self._done += cost

    def estimate_remaining(self, now: float) -> float | None:
        """Return the remaining seconds; `None` if few costs are known or the build just began."""
        if self._began is None or not self._known or self._done < _STARTED_SHARE * self._total:
            return None
        elapsed = now - self._began
        return sum(self._remaining.values()) * elapsed / self._done if elapsed > 0 else None


def _parse_output_kind(output: str) -> str:
    """Return the kind of an output, which is its last one or two suffixes (`.so`, `.cu.o`)."""
    return "".join(PureWindowsPath(output).suffixes[-2:])
