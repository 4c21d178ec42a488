"""In which order extensions are built: each after those that it needs, else as they are listed.
Pure.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from tasks.core.errors import SettingsError
from tasks.core.suggest import format_did_you_mean
from tasks.knowledge.extensions import normalize_project_name


def sort_by_prerequisites(after: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """The names of `after`, which says for each what is before it, in order, and what is before
    each by its very name. `SettingsError` for a name that is not among them, and where they wait
    for one another.
    """
    meant = {normalize_project_name(name): name for name in after}
    before = {
        name: tuple(_resolve_prerequisite(one, name, meant) for one in ones)
        for name, ones in after.items()
    }
    places = {name: place for place, name in enumerate(after)}
    names = list(after)
    sorter = TopologicalSorter(before)
    try:
        sorter.prepare()
    except CycleError as error:
        raise SettingsError(
            f"they wait for one another: {' after '.join(error.args[1])}",
            location=f"extensions ({error.args[1][0]}).after",
            hint="take one of these names out",
        ) from error
    ready: list[int] = []
    done: dict[str, tuple[str, ...]] = {}
    while sorter.is_active():
        for free in sorter.get_ready():
            heapq.heappush(ready, places[free])
        name = names[heapq.heappop(ready)]
        done[name] = before[name]
        sorter.done(name)
    return done


def _resolve_prerequisite(name: str, of: str, meant: Mapping[str, str]) -> str:
    found = meant.get(normalize_project_name(name))
    if found is None:
        near = format_did_you_mean(name, (one for one in meant.values() if one != of))
        raise SettingsError(
            f'it comes after "{name}", which is not in this profile{near}',
            location=f"extensions ({of}).after",
            hint=f"add {name} to extensions or companions, or take the name out of after",
        )
    return found
