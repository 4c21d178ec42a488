"""Ninja's lines as progress."""

from __future__ import annotations

import pytest

from tasks.stages.compile.progress import Meter, Progress


def test_other_lines_tell_nothing() -> None:
    meter = Meter()
    for line in ("", "-- Configuring done", "warning: [1/2] in the middle", "[a/b]", "[0/0] x"):
        assert meter.feed(line, 0.0) is None


def test_estimate_goes_by_the_rate_so_far() -> None:
    meter = Meter()
    assert meter.feed("[1/101] Building", 10.0) == Progress(1, 101)
    assert meter.feed("[11/101] Building", 20.0) == Progress(11, 101, 90.0)
    assert meter.feed("[51/101] Building", 35.0) == Progress(51, 101, 25.0)


def test_build_that_goes_on_is_estimated_from_where_it_went_on() -> None:
    meter = Meter()
    meter.feed("[500/1000] Building", 0.0)
    assert meter.feed("[510/1000] Building", 10.0) == Progress(510, 1000, 490.0)


def test_new_total_starts_a_new_estimate() -> None:
    meter = Meter()
    meter.feed("[0/1] Re-running CMake...", 0.0)
    assert meter.feed("[1/1350] Building", 60.0) == Progress(1, 1350)
    assert meter.feed("[2/1350] Building", 61.0) == Progress(2, 1350, 1348.0)


@pytest.mark.parametrize(
    ("eta", "text"),
    [
        (None, "675/1350 (50 %)"),
        (4.4, "675/1350 (50 %), 4.4 s left"),
        (247.0, "675/1350 (50 %), 4 min 07 s left"),
        (7260.0, "675/1350 (50 %), 2 h 01 min left"),
    ],
)
def test_reads_as_a_person_would_say_it(eta: float | None, text: str) -> None:
    assert str(Progress(675, 1350, eta)) == text
