"""The graph of the stages as rails beside a list of them, one row a stage. Pure.

A stage holds its rail down to the last stage that reads what it leaves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tasks.runlog.record import StageNode


@dataclass(frozen=True)
class GraphRow:
    """One stage: its `rail`, the rails of the stages that it comes `after`, those that pass
    `through` its row, and whether another comes `down` from it. `nearest` are the names of what it
    comes after, without those that come before one another.
    """

    name: str
    rail: int
    after: tuple[int, ...]
    through: tuple[int, ...]
    down: bool
    nearest: tuple[str, ...]


def lay_out_graph(graph: Sequence[StageNode]) -> tuple[GraphRow, ...]:
    """The rows, in the order of the plan, in which a stage stands after what it reads."""
    nearest = _find_nearest(graph)
    last = {name: node.name for node in graph for name in nearest[node.name]}
    held: dict[int, str] = {}
    found = []
    for node in graph:
        after = {rail: name for rail, name in held.items() if name in nearest[node.name]}
        for rail in [rail for rail, name in after.items() if last[name] == node.name]:
            del held[rail]
        through = tuple(sorted(held))
        rail = next(number for number in range(len(held) + 1) if number not in held)
        if node.name in last:
            held[rail] = node.name
        found.append(
            GraphRow(
                node.name,
                rail,
                tuple(sorted(after)),
                through,
                node.name in last,
                nearest[node.name],
            )
        )
    return tuple(found)


def find_predecessors(graph: Sequence[StageNode]) -> Mapping[str, frozenset[str]]:
    """All that a stage comes after, however far."""
    found: dict[str, frozenset[str]] = {}
    for node in graph:
        known = [name for name in node.after if name in found]
        found[node.name] = frozenset(known).union(*(found[name] for name in known))
    return found


def _find_nearest(graph: Sequence[StageNode]) -> Mapping[str, tuple[str, ...]]:
    far = find_predecessors(graph)
    return {
        node.name: tuple(
            name
            for name in dict.fromkeys(node.after)
            if name in far[node.name] and not any(name in far[other] for other in node.after)
        )
        for node in graph
    }
