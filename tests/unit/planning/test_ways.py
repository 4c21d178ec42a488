"""Comparison of the three strategies and their cost."""

from __future__ import annotations

from typing import Any

from tasks.core.model import Host
from tasks.knowledge.costs import Cost, estimate_cost
from tasks.knowledge.resource_estimates import ALL_PLACES
from tasks.planning.strategy_comparison import StrategyOption, compare_strategies
from tasks.settings.schema import parse_settings
from tests.support.checkout import RELEASE, pin_torch
from tests.support.rows import each_row
from tests.unit.planning.test_decide import KNOWLEDGE, RTX_5090, existing, host


def list_options(on: Host, **settings: Any) -> dict[str, StrategyOption]:
    return {
        way.strategy: way
        for way in compare_strategies(parse_settings(pin_torch(settings)), on, KNOWLEDGE)
    }


def everywhere(cost: Cost) -> tuple[int, int]:
    assert cost.disk_usage is not None
    return cost.disk_usage.sum_places(ALL_PLACES)


def test_every_strategy_has_a_reason() -> None:
    found = list_options(host(RTX_5090))
    assert list(found) == ["prebuilt", "source", "existing"]
    assert [(way.possible, way.chosen, way.why) for way in found.values()] == [
        (True, True, f"PyPI's torch {RELEASE} (CUDA 13.2) holds sm_120"),
        (True, False, "it can be built"),
        (False, False, "/usr/bin/python3 has no torch"),
    ]


def test_unavailable_strategy_names_what_is_missing() -> None:
    found = list_options(host(), torch={"version": "2.6.0"})
    assert not any(way.possible or way.chosen for way in found.values())
    assert found["prebuilt"].why == (
        "no official wheel of torch 2.6.0 holds code for 12.0: its newest arch is 9.0"
    )
    assert found["source"].why.startswith("CUDA 12.8 is needed")


def test_build_settings_make_the_prebuilt_strategy_unavailable() -> None:
    found = list_options(host(), source={"path": "/src"})
    assert (found["prebuilt"].possible, found["source"].chosen) == (False, True)
    assert found["prebuilt"].why == "no official wheel is built with source.path"
    assert found["source"].why == found["prebuilt"].why


def test_existing_strategy_is_offered_if_torch_is_installed() -> None:
    found = list_options(existing("2.11.0+cu130", "13.0"))
    assert found["existing"].possible
    assert not found["existing"].chosen


def test_partial_build_duration_is_unknown() -> None:
    part = list_options(host(), build={"target": "c10"})["source"].cost
    assert part.seconds is None
    assert part.known.startswith("unverified")
    assert part.disk_usage == estimate_cost(KNOWLEDGE, "source", archs=1, extensions=0).disk_usage


def test_only_compile_time_scales_with_cores() -> None:
    one = Cost((160, 1_300), None, 1, "verified: X", core_seconds=(100, 1_000))
    assert one.scale_to_cores(1).seconds == (160, 1_300)
    assert one.scale_to_cores(8).seconds == (73, 425)
    assert one.scale_to_cores(8).scale_to_cores(8) == one.scale_to_cores(8)
    assert Cost(None, None, 0, "unverified").scale_to_cores(4).seconds is None


def test_two_core_estimate_matches_measurements() -> None:
    cpu = estimate_cost(KNOWLEDGE, "source", archs=0, extensions=0).scale_to_cores(2)
    assert cpu.seconds is not None
    least, most = cpu.seconds
    assert least <= 57 * 60 + 60
    assert most >= 97 * 60
    wheel = estimate_cost(KNOWLEDGE, "prebuilt", archs=1, extensions=1).scale_to_cores(2)
    assert wheel.seconds is not None
    assert wheel.seconds[0] <= 49 <= wheel.seconds[1]
    cuda = estimate_cost(KNOWLEDGE, "source", archs=1, extensions=0)
    cpu_alone = estimate_cost(KNOWLEDGE, "source", archs=0, extensions=0)
    assert cuda.core_seconds[0] >= cpu_alone.core_seconds[0] + 3600 + 48 * 60


@each_row("strategy", ["prebuilt", "source", "existing"])
@each_row("archs", [0, 1, 3])
def test_build_with_more_work_costs_more(strategy: Any, archs: int) -> None:
    bare = estimate_cost(KNOWLEDGE, strategy, archs, 0)
    more = estimate_cost(KNOWLEDGE, strategy, archs + (archs > 0), 2)
    assert bare.seconds is not None
    assert more.seconds is not None
    assert bare.seconds[0] <= bare.seconds[1]
    assert more.seconds > bare.seconds
    assert everywhere(more) > everywhere(bare)
    assert more.memory_mib >= bare.memory_mib
    assert bare.known.startswith(("verified", "unverified"))


def test_build_costs_more_than_a_wheel() -> None:
    for archs in (0, 1):
        wheel = estimate_cost(KNOWLEDGE, "prebuilt", archs, 0).scale_to_cores(16)
        build = estimate_cost(KNOWLEDGE, "source", archs, 0).scale_to_cores(16)
        assert wheel.seconds is not None
        assert build.seconds is not None
        assert wheel.seconds[1] < build.seconds[1]
        assert everywhere(wheel)[1] < everywhere(build)[1]
