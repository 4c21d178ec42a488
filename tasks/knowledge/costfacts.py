"""costs.yaml with types: read only where somebody asks what a build takes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tasks.core.model import Strategy
from tasks.knowledge.room import DiskUsage, Range


@dataclass(frozen=True)
class CostFact:
    """What one strategy takes, each time as least and most in seconds.

    `core_seconds` are the compilers' own, added up; each arch after the first adds `arch_seconds`
    to them. `uncertain` says what of it was not checked, "" where `status` says all.
    """

    strategy: Strategy
    cuda: bool
    seconds: tuple[int, int]
    core_seconds: tuple[int, int]
    arch_seconds: tuple[int, int]
    disk_usage: DiskUsage
    memory_mib: int
    status: str
    uncertain: str


@dataclass(frozen=True)
class ExtensionCost:
    """What one extension adds to any strategy; `seconds` are least and most."""

    seconds: tuple[int, int]
    disk_usage: DiskUsage
    memory_mib: int
    status: str
    uncertain: str


def read_costs(data: Mapping[str, Any]) -> tuple[CostFact, ...]:
    """costs.yaml: ways."""
    return tuple(
        CostFact(
            strategy=row["strategy"],
            cuda=row["cuda"],
            seconds=_read_range(row["seconds"]),
            core_seconds=_read_range(row["core_seconds"]),
            arch_seconds=_read_range(row.get("arch_seconds", (0, 0))),
            disk_usage=_read_disk_usage(row["room_mib"]),
            memory_mib=row["memory_mib"],
            status=row["status"],
            uncertain=row["uncertain"],
        )
        for row in data["ways"]
    )


def read_extension_cost(data: Mapping[str, Any]) -> ExtensionCost:
    """costs.yaml: extension."""
    row = data["extension"]
    return ExtensionCost(
        seconds=_read_range(row["seconds"]),
        disk_usage=_read_disk_usage(row["room_mib"]),
        memory_mib=row["memory_mib"],
        status=row["status"],
        uncertain=row["uncertain"],
    )


def _read_disk_usage(row: Mapping[str, Any]) -> DiskUsage:
    parts = (_read_range(row[key]) for key in ("build", "installed", "wheels", "cache"))
    return DiskUsage(*parts)


def _read_range(pair: Iterable[int]) -> Range:
    least, most = pair
    return least, most
