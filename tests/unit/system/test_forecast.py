"""The remaining build time, estimated from recorded costs."""

from __future__ import annotations

import random

import pytest

from tasks.core.ninja_progress import find_step_output
from tasks.jobs.forecast import Forecast

COSTS = {"a/x.cpp.o": 10.0, "a/y.cpp.o": 30.0, "a/k.cu.o": 100.0, "lib/liba.so": 2.0}


def building(output: str) -> str:
    return f"[1/4] Building CXX object {output}"


@pytest.mark.parametrize(
    ("line", "output"),
    [
        ("[3/9] Building CUDA object a/k.cu.o", "a/k.cu.o"),
        ("[9/9] Linking CXX shared library lib/liba.so", "lib/liba.so"),
        ("[9/9] Linking CXX shared module functorch/functorch.so", "functorch/functorch.so"),
        ("[4/9] /usr/bin/g++ -I. -o a/x.cpp.o -c ../a/x.cpp", "a/x.cpp.o"),
        ("[4/9] cl.exe /nologo /Foa\\x.cpp.obj /c x.cpp", "a\\x.cpp.obj"),
        ("[5/9] Generating something", ""),
    ],
)
def test_output_is_parsed_from_ninja_line(line: str, output: str) -> None:
    assert find_step_output(line) == output


def test_remaining_time_is_estimated_from_recorded_costs() -> None:
    forecast = Forecast(COSTS, COSTS)
    assert forecast.estimate_remaining(1.0) is None
    forecast.finish_step(building("a/y.cpp.o"), 30.0)
    forecast.finish_step(building("a/x.cpp.o"), 30.0)
    assert forecast.estimate_remaining(30.0) == pytest.approx(102 * 30 / 40)  # 40 s of work in 30 s


def test_repeated_step_counts_once() -> None:
    forecast = Forecast(COSTS, COSTS)
    forecast.finish_step(
        "[1/9] Generating something", 500.0
    )  # not a compile step, so it says nothing about the speed
    forecast.finish_step(building("a/y.cpp.o"), 530.0)
    forecast.finish_step(building("a/y.cpp.o"), 530.0)
    assert forecast.estimate_remaining(530.0) == pytest.approx(112)


def test_new_object_costs_average_of_its_type() -> None:
    forecast = Forecast(["a/x.cpp.o", "a/new.cpp.o"], COSTS)
    forecast.finish_step(building("a/x.cpp.o"), 10.0)
    assert forecast.estimate_remaining(10.0) is None  # most of the cost is unknown
    forecast = Forecast(["a/x.cpp.o", "a/y.cpp.o", "a/new.cpp.o"], COSTS)
    forecast.finish_step(building("a/x.cpp.o"), 10.0)
    assert forecast.estimate_remaining(10.0) == pytest.approx(50)


def test_no_record_gives_no_estimate() -> None:
    forecast = Forecast(["a/x.cpp.o"], {})
    forecast.finish_step(building("a/x.cpp.o"), 10.0)
    assert forecast.estimate_remaining(10.0) is None


@pytest.mark.parametrize("seed", range(5))
def test_estimate_is_close_after_a_fifth_of_recorded_build(seed: int) -> None:
    """Costs like in PyTorch: mostly seconds, a few minutes; four jobs, each up to 20 % off."""
    chance = random.Random(seed)
    costs = {f"{n}.cpp.o": chance.lognormvariate(2, 1) for n in range(400)}
    finished = sorted(_schedule(costs, 4, chance).items(), key=lambda item: item[1])
    forecast, end = Forecast(costs, costs), finished[-1][1]
    for output, when in finished[:80]:
        forecast.finish_step(building(output), when)
    now = finished[79][1]
    left = forecast.estimate_remaining(now)
    assert left is not None
    assert now + left == pytest.approx(end, rel=0.25)


def _schedule(costs: dict[str, float], jobs: int, chance: random.Random) -> dict[str, float]:
    """Return when each output is finished, in the given order on this many cores."""
    free, done = [0.0] * jobs, {}
    for output, cost in costs.items():
        core = free.index(min(free))
        free[core] += cost * chance.uniform(0.8, 1.2)
        done[output] = free[core]
    return done
