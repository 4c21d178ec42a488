"""Sums over edges: what took longest, and in which folder the time went. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import nlargest

from tasks.runlog.record import Edge, Run
from tasks.runlog.report.outputs import folder

SLOWEST, FOLDERS = 50, 25


@dataclass(frozen=True)
class At:
    """An edge, and the stage that it is of."""

    stage: str
    edge: Edge

    @property
    def key(self) -> tuple[str, str]:
        """What it is the same by in another run."""
        return self.stage, self.edge.output


@dataclass(frozen=True)
class Folder:
    """What was made in a folder: `seconds` are those of its edges together, `share` of all of them,
    `peak_mib` that of the largest.
    """

    path: str
    edges: int
    seconds: float
    share: float
    peak_mib: int | None


def edges(run: Run) -> tuple[At, ...]:
    """All that was made, in the order in which it began."""
    found = [At(stage.name, edge) for stage in run.stages for edge in stage.edges]
    return tuple(sorted(found, key=lambda one: (one.edge.began, one.edge.ended, one.key)))


def slowest(found: Iterable[At]) -> list[At]:
    """Those that took longest, the longest first."""
    return nlargest(SLOWEST, found, key=lambda one: (one.edge.seconds, one.key))


def folders(found: Iterable[At]) -> list[Folder]:
    """Where the time went, most first; what comes after the first 25 is one row."""
    by_path: dict[str, list[Edge]] = {}
    for one in found:
        by_path.setdefault(folder(one.edge.output), []).append(one.edge)
    total = sum(edge.seconds for made in by_path.values() for edge in made)
    rows = [_folder(path, made, total) for path, made in by_path.items()]
    rows.sort(key=lambda row: (-row.seconds, row.path))
    rest = [edge for row in rows[FOLDERS:] for edge in by_path[row.path]]
    others = [_folder(f"{len(rows) - FOLDERS} other folders", rest, total)] if rest else []
    return rows[:FOLDERS] + others


def _folder(path: str, made: list[Edge], total: float) -> Folder:
    seconds = sum(edge.seconds for edge in made)
    peaks = (edge.peak_mib for edge in made if edge.peak_mib is not None)
    share = seconds / total if total else 0.0
    return Folder(path, len(made), seconds, share, max(peaks, default=None))
