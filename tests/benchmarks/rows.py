"""A row of the table: our figure, the other's, and whether it reaches what is promised."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

# of each way, in turn; CI, which does not judge by the clock, takes one
RUNS = int(os.environ.get("TORCHYARD_BENCHMARK_RUNS", "3"))


@dataclass(frozen=True)
class Row:
    """`ours` and `other` in seconds, None where it was not run; `reach` is the largest ratio that
    keeps the promise, `grace` seconds that do not count. `failed` says what else was asked for and
    was not given.
    """

    name: str
    reach: float
    ours: float | None = None
    other: float | None = None
    failed: str = ""
    grace: float = 0.0

    @property
    def ratio(self) -> float | None:
        if self.ours is None or self.other is None:
            return None
        return round(self.ours / self.other, 3)

    @property
    def met(self) -> bool | None:
        """None where there is nothing to judge."""
        if self.failed:
            return False
        if self.ours is None or self.other is None:
            return None
        return self.ours - self.grace <= self.reach * self.other

    def record(self) -> dict[str, object]:
        """What the JSON file holds."""
        return {
            "name": self.name,
            "ours": self.ours,
            "other": self.other,
            "ratio": self.ratio,
            "reach": self.reach,
            "met": self.met,
        }


def table(rows: Iterable[Row]) -> str:
    """All of it, aligned."""
    head = f"{'name':<20}{'ours':>9}{'other':>9}{'ratio':>8}{'reach':>8}  met"
    return "\n".join([head, *map(_line, rows)])


def _line(row: Row) -> str:
    met = {True: "yes", False: "NO", None: "not run"}[row.met]
    figures = f"{_figure(row.ours):>9}{_figure(row.other):>9}{_figure(row.ratio):>8}"
    return f"{row.name:<20}{figures}{row.reach:>8.2f}  {met} {row.failed}".rstrip()


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
