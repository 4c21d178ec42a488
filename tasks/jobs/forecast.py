"""How long a build still takes, from what each of its objects cost before.

Work is counted in the seconds that an output took last time. What was finished per second of the
clock since the build began is its speed: cores, throttling and the memory that is there are all in
it. What is left, over that speed, is the estimate. An output without a record costs what those of
its kind did in the middle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median

from tasks.core.ninja_progress import find_step_output

_KNOWN_SHARE = 0.5  # share of the work whose cost has to be known
_STARTED_SHARE = 0.03  # share of the work after which its speed says something


@dataclass
class Forecast:
    """Reads what is finished. `planned` are the outputs to be made, `costs` the seconds by output
    of earlier builds.
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
        known = {output: self.costs[output] for output in planned if output in self.costs}
        usual = {kind: median(costs) for kind, costs in self._group_costs_by_kind().items()}
        anything = median(self.costs.values()) if self.costs else 0.0
        for output in planned:
            self._remaining[output] = known.get(
                output, usual.get(_parse_output_kind(output), anything)
            )
        self._total = sum(self._remaining.values())
        self._known = bool(known) and sum(known.values()) >= _KNOWN_SHARE * self._total

    def _group_costs_by_kind(self) -> Mapping[str, list[float]]:
        found: defaultdict[str, list[float]] = defaultdict(list)
        for output, cost in self.costs.items():
            found[_parse_output_kind(output)].append(cost)
        return found

    def finish_step(self, line: str, now: float) -> None:
        """One of Ninja's lines, which it prints when a step is done; `now` in seconds of a steady
        clock. What comes before the first output that is known (generating code) is no work that
        tells of the speed.
        """
        cost = self._remaining.pop(find_step_output(line), None)
        if cost is None:
            return
        if self._began is None:
            self._began = now - cost
        self._done += cost

    def estimate_remaining(self, now: float) -> float | None:
        """Seconds that are left, None where nothing can be said."""
        if self._began is None or not self._known or self._done < _STARTED_SHARE * self._total:
            return None
        passed = now - self._began
        return sum(self._remaining.values()) * passed / self._done if passed > 0 else None


def _parse_output_kind(output: str) -> str:
    """`.cu.o`, `.cpp.o`, `.so`: what costs alike."""
    name = output.replace("\\", "/").rpartition("/")[2]
    return "".join(f".{part}" for part in name.split(".")[1:][-2:])
