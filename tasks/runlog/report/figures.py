"""Sums over edges: what took longest, and in which folder the time went. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import nlargest

from tasks.runlog.record import Edge, Run
from tasks.runlog.report.outputs import find_source_folder

MAX_SLOWEST, MAX_FOLDERS = 50, 25


@dataclass(frozen=True)
class StageEdge:
    """An edge, and the stage that it is of."""

    stage: str
    edge: Edge

    @property
    def key(self) -> tuple[str, str]:
        """What it is the same by in another run."""
        return self.stage, self.edge.output


@dataclass(frozen=True)
class FolderTime:
    """What was made in a folder: `seconds` are those of its edges together, `share` of all of them,
    `peak_mib` that of the largest.
    """

    path: str
    edges: int
    seconds: float
    share: float
    peak_mib: int | None


def list_edges(run: Run) -> tuple[StageEdge, ...]:
    """All that was made, in the order in which it began."""
    found = [StageEdge(stage.name, edge) for stage in run.stages for edge in stage.edges]
    return tuple(sorted(found, key=lambda one: (one.edge.began, one.edge.ended, one.key)))


def find_slowest(found: Iterable[StageEdge]) -> list[StageEdge]:
    """Those that took longest, the longest first."""
    return nlargest(MAX_SLOWEST, found, key=lambda one: (one.edge.seconds, one.key))


def summarize_folders(found: Iterable[StageEdge]) -> list[FolderTime]:
    """Where the time went, most first; what comes after the first 25 is one row."""
    by_path: dict[str, list[Edge]] = {}
    for one in found:
        by_path.setdefault(find_source_folder(one.edge.output), []).append(one.edge)
    total = sum(edge.seconds for made in by_path.values() for edge in made)
    rows = [_summarize_folder(path, made, total) for path, made in by_path.items()]
    rows.sort(key=lambda row: (-row.seconds, row.path))
    rest = [edge for row in rows[MAX_FOLDERS:] for edge in by_path[row.path]]
    others = (
        [_summarize_folder(f"{len(rows) - MAX_FOLDERS} other folders", rest, total)] if rest else []
    )
    return rows[:MAX_FOLDERS] + others


def _summarize_folder(path: str, made: list[Edge], total: float) -> FolderTime:
    seconds = sum(edge.seconds for edge in made)
    peaks = (edge.peak_mib for edge in made if edge.peak_mib is not None)
    share = seconds / total if total else 0.0
    return FolderTime(path, len(made), seconds, share, max(peaks, default=None))
