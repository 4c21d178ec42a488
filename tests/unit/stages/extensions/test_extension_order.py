"""Extensions that need others: in which order they are built, and what is refused at load."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.core.errors import SettingsError
from tasks.core.model import Plan
from tasks.stages.extensions.plan import sort_by_prerequisites
from tests.unit.planning.test_decide import host
from tests.unit.test_plan import plan_of


def mine(name: str, *after: str) -> dict[str, Any]:
    return {"name": name, "path": name, "after": list(after)}


def planned(*extensions: Any, **asked: Any) -> Plan:
    return plan_of(host(), extensions=list(extensions), **asked)


def names(plan: Plan) -> list[str]:
    return [stage.job.name for stage in plan.stages if stage.kind == "extensions"]


def refused(*extensions: Any) -> str:
    with pytest.raises(SettingsError) as told:
        planned(*extensions)
    return str(told.value)


@pytest.mark.parametrize(
    ("after", "order"),
    [
        ({"a": [], "b": [], "c": []}, "abc"),
        ({"a": ["c"], "b": [], "c": []}, "bca"),
        ({"a": ["b"], "b": ["c"], "c": [], "d": []}, "cbad"),
        ({"d": ["b", "c"], "c": ["a"], "b": ["a"], "a": []}, "acbd"),
    ],
)
def test_each_comes_after_what_it_needs_and_else_as_it_is_listed(
    after: dict[str, list[str]], order: str
) -> None:
    assert "".join(sort_by_prerequisites(after)) == order


def test_a_stage_reads_what_it_comes_after() -> None:
    plan = planned(mine("a", "b"), mine("b"))
    assert names(plan) == ["b", "a"]
    first, second = (stage for stage in plan.stages if stage.kind == "extensions")
    assert set(first.outputs) <= set(second.inputs)
    assert second.job.after == first.outputs
    assert not set(second.outputs) & set(first.inputs)


def test_a_known_one_says_itself_what_it_needs() -> None:
    assert names(planned("torch-sparse", "torch-scatter")) == ["torch-scatter", "torch-sparse"]
    assert refused("torch-sparse") == (
        'extensions (torch-sparse).after: torch-sparse comes after "torch-scatter", which is not '
        "in this profile\n"
        "  → add torch-scatter to extensions or companions, or remove it from after"
    )
    assert names(planned({"name": "torch-sparse", "after": []})) == ["torch-sparse"]


def test_a_companion_can_be_needed_also_one_that_came_with_torch() -> None:
    plan = planned(mine("a", "torchvision", "triton"), companions=["torchvision", "triton"])
    assert names(plan) == ["torchvision", "a"]
    stages = {stage.name: stage for stage in plan.stages}
    waits = [path.stem for path in stages["extensions:a"].job.after]
    assert waits == ["torchvision"]


def test_a_ring_is_refused() -> None:
    told = refused(mine("a", "b"), mine("b", "c"), mine("c", "a"))
    assert told.startswith("extensions (")
    assert "extensions wait for each other: " in told
    assert told.count(" after ") == 3


def test_one_that_waits_for_itself_is_refused() -> None:
    assert "extensions wait for each other: a after a" in refused(mine("a", "a"))


def test_a_name_that_is_not_there_is_told_the_nearest() -> None:
    told = refused(mine("raster"), mine("a", "rastre"))
    assert 'which is not in this profile; did you mean "raster"?' in told


def test_an_order_is_no_input_but_what_is_read() -> None:
    alone, after = planned(mine("a"), mine("b")), planned(mine("a"), mine("b", "a"))
    assert alone.stages[-1].fingerprint == after.stages[-1].fingerprint
    assert alone.stages[-1].inputs != after.stages[-1].inputs
