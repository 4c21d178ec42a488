"""Progress parsed from Ninja's output."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tasks.core.build_activity import BuildActivity
from tasks.core.ninja_progress import Progress, ProgressMeter, ProgressThrottle


def after(times: list[float], total: int) -> Progress | None:
    """Return the progress after the last of these steps, which ended at `times`."""
    meter, progress = ProgressMeter(), None
    for done, now in enumerate(times, 1):
        progress = meter.read_line(f"[{done}/{total}] Building", now)
    return progress


def evenly(steps: int, seconds: float, since: float = 0.0) -> list[float]:
    return [since + seconds * step for step in range(steps)]


def test_unrelated_lines_are_no_progress() -> None:
    meter = ProgressMeter()
    for line in ("", "-- Configuring done", "warning: [1/2] in the middle", "[a/b]", "[0/0] x"):
        assert meter.read_line(line, 0.0) is None


def test_single_step_is_no_progress() -> None:
    assert ProgressMeter().read_line("[0/1] Re-running CMake...", 0.0) is None


def test_indented_pip_output_is_parsed() -> None:
    assert ProgressMeter().read_line("  [1/2] nvcc -c x.cu", 0.0) == Progress(1, 2)


def test_early_progress_has_no_estimate() -> None:
    quick, slow = after(evenly(400, 0.04), 1000), after(evenly(10, 60), 1000)
    assert quick == Progress(400, 1000)
    assert slow == Progress(10, 1000)


def test_steady_steps_are_estimated_by_rate() -> None:
    assert after(evenly(101, 2), 1001) == Progress(101, 1001, 1800.0)


def test_few_long_steps_are_enough_for_estimate() -> None:
    assert after(evenly(2, 120), 4) == Progress(2, 4, 240.0)


def test_estimate_grows_when_steps_get_slower() -> None:
    light = evenly(500, 0.5)
    heavy = evenly(100, 10, since=light[-1] + 10)
    progress = after([*light, *heavy], 1000)
    assert progress is not None
    assert progress.eta is not None
    overall = 400 * heavy[-1] / 599
    assert overall * 2 < progress.eta < 400 * 10


def test_resumed_build_is_estimated_from_where_it_resumed() -> None:
    meter = ProgressMeter()
    meter.read_line("[500/1000] Building", 0.0)
    assert meter.read_line("[520/1000] Building", 40.0) == Progress(520, 1000, 960.0)


@pytest.mark.parametrize("again", ["[1/1350] Building", "[1/4] Building"])
def test_new_ninja_run_resets_estimate(again: str) -> None:
    meter = ProgressMeter()
    for step in range(1, 101):
        meter.read_line(f"[{step}/1000] Building", step * 10.0)
    progress = meter.read_line(again, 1001.0)
    assert progress is not None
    assert progress.eta is None


def test_skipped_steps_do_not_reset_estimate() -> None:
    meter = ProgressMeter()
    for step in range(101):
        meter.read_line(f"[{step}/1000] Building", step * 1.0)
    assert meter.read_line("[110/510] Building", 110.0) == Progress(110, 510, 400.0)


def test_estimate_counts_down_until_step_takes_longer() -> None:
    progress = Progress(9, 10, 60.0)
    assert progress.advance_time(20.0) == Progress(9, 10, 40.0, silent=20.0)
    assert progress.advance_time(70.0) == Progress(9, 10, silent=70.0)
    assert Progress(9, 10).advance_time(5.0) == Progress(9, 10, silent=5.0)


SINCE = "no compiler has finished for 4 min"
FULL = BuildActivity(2, held_back=4, used_mib=1638, limit_mib=1740)


@pytest.mark.parametrize(
    ("silent", "at_work", "stalled"),
    [
        (110.0, FULL, ""),
        (
            250.0,
            replace(FULL, paused=5),
            f"{SINCE}: memory is full (1.6 of 1.7 GiB), 5 compilers are paused",
        ),
        (
            250.0,
            replace(FULL, jobs=None),
            f"{SINCE}: memory is full (1.6 of 1.7 GiB); a lower build.jobs uses less",
        ),
        (
            250.0,
            BuildActivity(2, used_mib=3072, limit_mib=4096, paused=1),
            f"{SINCE}: 1 compiler is paused until memory is free (3 of 4 GiB in use)",
        ),
        (250.0, BuildActivity(2, used_mib=512, limit_mib=4096), SINCE),
        (250.0, BuildActivity(0, used_mib=512, limit_mib=4096), ""),
    ],
)
def test_stalled_build_is_reported_with_reason(
    silent: float, at_work: BuildActivity, stalled: str
) -> None:
    progress = Progress(3, 9, at_work=at_work, silent=silent)
    assert progress.stall_message == stalled
    assert str(progress) == f"3/9 (33 %), {', '.join(filter(None, (str(at_work), stalled)))}"


def test_log_gets_line_per_minute_before_first_step_ends() -> None:
    minutes, nothing = ProgressThrottle(), Progress(0, 0, at_work=FULL, silent=60.0)
    assert [minutes.should_log(nothing, took) for took in (59.0, 61.0, 90.0, 122.0)] == [
        False,
        True,
        False,
        True,
    ]
    assert str(nothing) == "2 jobs (4 held back), 1.6 of 1.7 GiB"


@pytest.mark.parametrize(
    ("eta", "text"),
    [
        (None, "675/1350 (50 %)"),
        (4.4, "675/1350 (50 %), about 10 s left"),
        (33.0, "675/1350 (50 %), about 30 s left"),
        (247.0, "675/1350 (50 %), about 4 min left"),
        (1857.0, "675/1350 (50 %), about 31 min left"),
        (3590.0, "675/1350 (50 %), about 1 h left"),
        (7590.0, "675/1350 (50 %), about 2 h 05 min left"),
    ],
)
def test_remaining_time_is_formatted_for_people(eta: float | None, text: str) -> None:
    assert str(Progress(675, 1350, eta)) == text


def lines_of(seconds: float, total: int = 1350) -> list[int]:
    """Return the percentages that a log shows for a build of steady steps."""
    minutes = ProgressThrottle()
    steps = [Progress(done, total) for done in range(1, total + 1)]
    return [
        progress.percent
        for progress in steps
        if minutes.should_log(progress, seconds * progress.done / total)
    ]


def test_log_gets_one_line_per_minute() -> None:
    assert lines_of(600) == [10, 20, 30, 40, 50, 60, 70, 80, 90]
    assert len(lines_of(3600)) == 58


def test_short_build_logs_no_progress() -> None:
    assert lines_of(59) == []


def test_activity_follows_estimate() -> None:
    progress = Progress(675, 1350, 120.0, BuildActivity(jobs=2, used_mib=3174, limit_mib=24576))
    assert str(progress) == "675/1350 (50 %), about 2 min left, 2 jobs, 3.1 of 24 GiB"
