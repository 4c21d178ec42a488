"""When outputs were made by our clock, out of Ninja's own times."""

from __future__ import annotations

import time

import pytest

from tasks.core.build_activity import Job
from tasks.jobs.ninja_steps_io import EdgeTimes, build_edges
from tasks.runlog.build_history_io import NinjaLogEntry
from tasks.runlog.run_record import Edge


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def hear(heard: EdgeTimes, clock: list[float], **lines: str) -> None:
    """Lines by when they come: `at_12`."""
    for when, line in lines.items():
        clock[0] = float(when.removeprefix("at_"))
        heard.record_line(line)


def test_an_output_ended_when_its_line_came_and_began_as_the_log_says(clock: list[float]) -> None:
    heard = EdgeTimes()
    hear(
        heard,
        clock,
        at_104="[1/3] Building CXX object c10/a.cpp.o",
        at_105="/usr/bin/c++ -c -o other.o other.cpp",
        at_106="  [2/3] c++ -O2 -o b.o -c b.cpp",  # as pip shows it
    )
    made = {
        "c10/a.cpp.o": NinjaLogEntry(1.0, 4.0, "1"),
        "b.o": NinjaLogEntry(1.0, 6.0, "2"),
        "a.h": NinjaLogEntry(0, 9, "3"),
    }
    found = list(build_edges(heard, made, {"b.o": 310}))
    assert found == [Edge("b.o", 101.0, 106.0, 310), Edge("c10/a.cpp.o", 101.0, 104.0)]


def test_a_second_ninja_of_the_same_build_has_a_clock_of_its_own(clock: list[float]) -> None:
    heard = EdgeTimes()
    hear(
        heard,
        clock,
        at_102="[1/2] Building CXX object a.cpp.o",
        at_203="[1/2] Building CXX object b.cpp.o",
    )
    made = {"a.cpp.o": NinjaLogEntry(0.0, 2.0, "1"), "b.cpp.o": NinjaLogEntry(1.0, 3.0, "2")}
    assert list(build_edges(heard, made, {})) == [
        Edge("a.cpp.o", 100.0, 102.0),
        Edge("b.cpp.o", 201.0, 203.0),
    ]


def test_one_that_no_line_was_about_is_placed_beside_the_others(clock: list[float]) -> None:
    heard = EdgeTimes()
    hear(heard, clock, at_104="[1/2] Building CXX object a.cpp.o")
    made = {"a.cpp.o": NinjaLogEntry(1.0, 4.0, "1"), "lib.a": NinjaLogEntry(4.0, 4.5, "2")}
    assert list(build_edges(heard, made, {}))[1] == Edge("lib.a", 104.0, 104.5)
    assert list(build_edges(EdgeTimes(), made, {})) == []


def test_one_that_failed_is_told_with_the_time_since_which_it_was_seen(clock: list[float]) -> None:
    heard, job = EdgeTimes(), Job(7, "k.cu.o", "cuda", 900, 900, age=12.0)
    clock[0] = 112.0
    heard.record_running_jobs([job])
    hear(
        heard,
        clock,
        at_130="[3/9] Building CUDA object k.cu.o",
        at_131="FAILED: [code=1] k.cu.o k.d ",
        at_132="FAILED: b.cpp.o",
    )
    assert list(build_edges(heard, {}, {"k.cu.o": 900})) == [
        Edge("k.cu.o", 100.0, 131.0, 900, failed=True),
        Edge("b.cpp.o", 132.0, 132.0, failed=True),
    ]
