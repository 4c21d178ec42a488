"""Many runs of a build (`tasks.runlog.runs`) in few lines, which tell the same costs and
peaks. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_FULL_BUILD_DECISIONS = ("configure", "wipe")  # decisions after which every object is made
_MAX_OUTPUTS = 20_000  # that are known of runs which were put together: one of PyTorch makes 8,000


def find_first_kept(past: Sequence[Mapping[str, Any]], most: int) -> int:
    """The place of the first that stays as it is: the newest do while they take no more than `most`
    signs, the last one in any case.
    """
    held = 0
    for place in range(len(past) - 1, -1, -1):
        held += len(json.dumps(past[place]))
        if held > most and place < len(past) - 1:
            return place + 1
    return 0


def merge_old_runs(
    older: Sequence[Mapping[str, Any]], cost: Mapping[str, float], peak: Mapping[str, int]
) -> Iterator[Mapping[str, Any]]:
    """What stands for `older`, the oldest first: one that has the newest cost and peak of each
    output, and before it the last whole build among them, which tells how long one takes.
    """
    if not older:
        return
    whole = [run for run in older if run.get("decision") in _FULL_BUILD_DECISIONS][-1:]
    yield from map(_strip_peaks, whole)
    latest = dict.fromkeys(reversed([one["output"] for run in older for one in run["objects"]]))
    kept = reversed(list(latest)[:_MAX_OUTPUTS])
    yield {
        "when": older[-1].get("when", ""),
        "seconds": 0.0,
        "decision": "put together",
        "runs": sum(run.get("runs", 1) for run in older),
        "objects": [_build_merged_entry(output, cost, peak) for output in kept],
    }


def _strip_peaks(run: Mapping[str, Any]) -> Mapping[str, Any]:
    """Its peaks are in the one that stands for all."""
    kept = [{name: one[name] for name in one if name != "peak_mib"} for one in run["objects"]]
    return {**run, "objects": kept, "killed": []}


def _build_merged_entry(
    output: str, cost: Mapping[str, float], peak: Mapping[str, int]
) -> dict[str, Any]:
    seconds = {"seconds": cost[output]} if output in cost else {}
    return {"output": output, **seconds, **({"peak_mib": peak[output]} if output in peak else {})}
