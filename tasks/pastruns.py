"""What earlier runs of a build tell: peaks and costs by output; and many of them in few lines. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

_WHOLE = ("configure", "wipe")  # decisions after which every object is made
_OUTPUTS = 20_000  # that are known of runs which were put together: one of PyTorch makes 8,000


def peaks(past: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """MiB by output, at the most, of the last run that measured it.

    Where a compiler cache served a run, what was seen is the cache's own memory: no peak gets less
    by that. One that was killed needs more than was seen, and is taken for twice that.
    """
    found: dict[str, int] = {}
    for run in past:
        seen = {item["output"]: item["peak_mib"] for item in run["objects"] if "peak_mib" in item}
        if run.get("cache", {}).get("hits"):
            seen = {name: max(peak, found.get(name, peak)) for name, peak in seen.items()}
        found |= seen | {name: 2 * found[name] for name in run.get("killed", ()) if name in found}
    return found


def old_make(past: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the last run met a make that knows no pool."""
    return bool([run.get("old_make") for run in past][-1:] == [True])


def costs(past: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Seconds by output, of the last run that made it."""
    objects = (item for run in past for item in run["objects"])
    return {item["output"]: item["seconds"] for item in objects if "seconds" in item}


def compacted(past: Sequence[Mapping[str, Any]], most: int) -> list[Mapping[str, Any]]:
    """The same in less: of `past`, the oldest first, the newest stay as they are while they take no
    more than `most` signs, the last one in any case. The others become one, that has the newest
    cost and peak of each output; the last whole build among them stays beside it.

    `peaks`, `costs` and `old_make` of what comes out are those of `past`.
    """
    first = _first_kept(past, most)
    older, newer = past[:first], past[first:]
    whole = [run for run in older if run.get("decision") in _WHOLE][-1:]
    return [*map(_without_peaks, whole), *_together(older), *newer]


def _first_kept(past: Sequence[Mapping[str, Any]], most: int) -> int:
    held = 0
    for place in range(len(past) - 1, -1, -1):
        held += len(json.dumps(past[place]))
        if held > most and place < len(past) - 1:
            return place + 1
    return 0


def _without_peaks(run: Mapping[str, Any]) -> Mapping[str, Any]:
    """Its peaks are in the one that the others become, and it must not count twice."""
    kept = [{name: one[name] for name in one if name != "peak_mib"} for one in run["objects"]]
    return {**run, "objects": kept, "killed": []}


def _together(older: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    if not older:
        return
    peak, cost = peaks(older), costs(older)
    latest = dict.fromkeys(reversed([one["output"] for run in older for one in run["objects"]]))
    kept = list(latest)[:_OUTPUTS]
    yield {
        "when": older[-1].get("when", ""),
        "seconds": 0.0,
        "decision": "put together",
        "runs": sum(run.get("runs", 1) for run in older),
        "objects": [_known(output, cost, peak) for output in reversed(kept)],
    }


def _known(output: str, cost: Mapping[str, float], peak: Mapping[str, int]) -> dict[str, Any]:
    seconds = {"seconds": cost[output]} if output in cost else {}
    return {"output": output, **seconds, **({"peak_mib": peak[output]} if output in peak else {})}
