"""Tests of the build order of extensions and of invalid orders."""

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


def planned(*extensions: Any, **settings: Any) -> Plan:
    return plan_of(host(), extensions=list(extensions), **settings)


def names(plan: Plan) -> list[str]:
    return [stage.job.name for stage in plan.stages if stage.kind == "extensions"]


def read_error(*extensions: Any) -> str:
    with pytest.raises(SettingsError) as error:
        planned(*extensions)
    return str(error.value)


@pytest.mark.parametrize(
    ("after", "order"),
    [
        ({"a": [], "b": [], "c": []}, "abc"),
        ({"a": ["c"], "b": [], "c": []}, "bca"),
        ({"a": ["b"], "b": ["c"], "c": [], "d": []}, "cbad"),
        ({"d": ["b", "c"], "c": ["a"], "b": ["a"], "a": []}, "acbd"),
    ],
)
def test_prerequisites_come_first_in_stable_order(after: dict[str, list[str]], order: str) -> None:
    assert "".join(sort_by_prerequisites(after)) == order


def test_stage_inputs_include_outputs_of_prerequisite() -> None:
    plan = planned(mine("a", "b"), mine("b"))
    assert names(plan) == ["b", "a"]
    first, second = (stage for stage in plan.stages if stage.kind == "extensions")
    assert set(first.outputs) <= set(second.inputs)
    assert not set(second.outputs) & set(first.inputs)


def test_known_extension_has_default_prerequisites() -> None:
    assert names(planned("torch-sparse", "torch-scatter")) == ["torch-scatter", "torch-sparse"]
    assert read_error("torch-sparse") == (
        'extensions (torch-sparse).after: torch-sparse is built after "torch-scatter", which is '
        "not in this profile\n"
        "  → add torch-scatter to extensions or companions, or remove it from the key `after`"
    )
    assert names(planned({"name": "torch-sparse", "after": []})) == ["torch-sparse"]


def test_companion_can_be_prerequisite() -> None:
    plan = planned(mine("a", "torchvision", "triton"), companions=["torchvision", "triton"])
    assert names(plan) == ["torchvision", "a"]
    stages = {stage.name: stage for stage in plan.stages}
    (torchvision,) = stages["extensions:torchvision"].outputs
    assert torchvision in stages["extensions:a"].inputs


def test_prerequisite_cycle_is_refused() -> None:
    message = read_error(mine("a", "b"), mine("b", "c"), mine("c", "a"))
    assert message.startswith("extensions (")
    assert "the build order of the extensions is a cycle: " in message
    assert message.count(" after ") == 3


def test_self_prerequisite_is_refused() -> None:
    assert "the build order of the extensions is a cycle: a after a" in read_error(mine("a", "a"))


def test_unknown_prerequisite_suggests_closest_name() -> None:
    message = read_error(mine("raster"), mine("a", "rastre"))
    assert 'which is not in this profile; did you mean "raster"?' in message


def test_order_is_not_in_fingerprint_but_in_inputs() -> None:
    alone, after = planned(mine("a"), mine("b")), planned(mine("a"), mine("b", "a"))
    assert alone.stages[-1].fingerprint == after.stages[-1].fingerprint
    assert alone.stages[-1].inputs != after.stages[-1].inputs
