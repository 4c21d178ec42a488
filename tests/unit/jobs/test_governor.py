"""Tests of the governor's decision: how many jobs run and which are paused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tasks.core.build_activity import (
    BuildSnapshot,
    Job,
    JobKind,
    classify_command,
    classify_output,
    find_output_path,
)
from tasks.jobs.governor import decide_jobs

GIB = 1024
ROOMY = BuildSnapshot(limit_mib=64 * GIB, available_mib=60 * GIB, running=(), idle=1, most=16)
LIGHT: dict[JobKind, tuple[int, ...]] = {"c++": (200,) * 20}


def job(pid: int, resident: int, expected: int = 0, age: float = 0.0, waits: float = 0.0) -> Job:
    """Return a job; the lower its PID, the older it is."""
    age = age or 100.0 - pid
    return Job(pid, f"{pid}.o", "c++", resident, resident, expected, age, waits)


def snapshot(available: int, *jobs: Job, idle: int = 0, most: int = 8) -> BuildSnapshot:
    """Return a snapshot with a limit of 10,000 MiB, whose margin is 500 MiB."""
    return BuildSnapshot(10_000, available, jobs, idle, most, LIGHT, since_grant=60.0)


def test_all_jobs_run_with_enough_memory() -> None:
    assert decide_jobs(ROOMY).jobs == 16


def test_job_limit_is_not_exceeded() -> None:
    assert decide_jobs(replace(ROOMY, most=4)).jobs == 4


@pytest.mark.parametrize("available", [0, 100, 500])
def test_at_least_one_job_runs(available: int) -> None:
    assert decide_jobs(replace(ROOMY, available_mib=available)).jobs == 1
    verdict = decide_jobs(snapshot(available, job(1, 4000, 6000), job(2, 4000, 6000)))
    assert verdict.jobs >= 1
    assert verdict.paused == {2}


def test_unknown_jobs_start_with_typical_memory_of_kind() -> None:
    view = BuildSnapshot(limit_mib=16 * GIB, available_mib=15 * GIB, running=(), idle=1, most=16)
    assert decide_jobs(view).jobs == 14  # 1 GiB each, with a margin of 0.8 GiB
    assert decide_jobs(replace(view, shown={"c++": (300,) * 9})).jobs == 16


def test_unknown_jobs_are_added_one_per_second() -> None:
    two_running = snapshot(9000, job(1, 50), job(2, 50))
    assert decide_jobs(two_running).jobs == 3
    assert decide_jobs(replace(two_running, since_grant=0.5)).jobs == 2


def test_known_jobs_run_as_many_as_fit() -> None:
    assert (
        decide_jobs(replace(snapshot(9000, job(1, 50, 300), job(2, 50, 300)), since_grant=0.5)).jobs
        == 8
    )
    # 1400 − 500 − 2 × 250 leaves 400: two more jobs
    assert decide_jobs(snapshot(1400, job(1, 50, 300), job(2, 50, 300))).jobs == 4


def test_memory_is_reserved_for_idle_tokens() -> None:
    assert decide_jobs(snapshot(1400, job(1, 50, 300), job(2, 50, 300), idle=2)).jobs == 4
    assert decide_jobs(snapshot(1000, job(1, 50, 300), job(2, 50, 300), idle=2)).jobs == 2


def test_new_job_that_does_not_fit_is_paused() -> None:
    verdict = decide_jobs(snapshot(4000, job(1, 1000, 1200), job(2, 10, 6000), job(3, 10, 300)))
    assert verdict.paused == {2}
    assert verdict.jobs == 3


def test_paused_job_resumes_when_memory_is_free() -> None:
    waiting = job(2, 10, 6000, waits=3.0)
    assert decide_jobs(snapshot(4000, job(1, 1000, 1200), waiting)).paused == {2}
    assert decide_jobs(snapshot(7500, job(1, 1000, 1200), waiting)).paused == frozenset()


def test_oldest_paused_job_resumes_first() -> None:
    waiting = (job(2, 10, 3000, waits=3.0), job(3, 10, 3000, waits=2.0))
    assert decide_jobs(snapshot(5000, job(1, 1000, 1200), *waiting)).paused == {3}


def test_running_jobs_have_precedence_over_paused_jobs() -> None:
    verdict = decide_jobs(
        snapshot(3000, job(1, 10, 2000, waits=5.0), job(2, 500, 2000), job(3, 500, 1000))
    )
    assert verdict.paused == {1}


def test_one_job_resumes_if_all_are_paused() -> None:
    verdict = decide_jobs(
        snapshot(600, job(1, 3000, 6000, waits=1.0), job(2, 3000, 3500, waits=1.0))
    )
    assert verdict.paused == {1}


def test_paused_job_stops_growth_and_later_lowers_job_count() -> None:
    def jobs(waits: float) -> int:
        return decide_jobs(
            snapshot(3000, job(1, 500, 600), job(2, 10, 6000, waits=waits), idle=2)
        ).jobs

    assert jobs(1.0) == 2
    assert jobs(11.0) == 1


def test_job_above_its_last_peak_may_grow_further() -> None:
    steady, grown = job(2, 1000, 1000), job(2, 1300, 1000)
    assert decide_jobs(snapshot(800, job(1, 100, 100), steady)).paused == frozenset()
    assert decide_jobs(snapshot(800, job(1, 100, 100), grown)).paused == {2}


def test_fully_grown_job_is_not_paused() -> None:
    assert decide_jobs(snapshot(100, job(1, 900, 2000), job(2, 1000, 1000))).paused == frozenset()


def test_observed_peaks_apply_only_to_same_kind() -> None:
    cuda = replace(job(2, 10), kind="cuda")
    assert decide_jobs(snapshot(3000, job(1, 10), cuda)).paused == {2}
    assert decide_jobs(snapshot(3000, job(1, 10), job(2, 10))).paused == frozenset()


@pytest.mark.parametrize(
    ("command", "output", "kind"),
    [
        ("/usr/bin/c++ -DX -MF a.cpp.o.d -o dir/a.cpp.o -c /src/a.cpp", "dir/a.cpp.o", "c++"),
        ("nvcc -x cu -c /s/f.cu -o f.cu.o", "f.cu.o", "cuda"),
        ("/bin/sh -c : && g++ -shared -o lib/libx.so a.cpp.o b.cu.o && :", "lib/libx.so", "other"),
        ('nvcc -c "/s p/f.cu" -o "/b d/f.o"', "/b d/f.o", "cuda"),
        (r"cl.exe /c x.cpp /Fox\x.obj", r"x\x.obj", "c++"),
        ("ar qc libx.a a.cpp.o", "", "other"),
        ("python gen.py --out-dir x", "", "other"),
    ],
)
def test_output_and_kind_are_read_from_command_line(command: str, output: str, kind: str) -> None:
    assert (find_output_path(command), classify_command(command)) == (output, kind)


@pytest.mark.parametrize(
    ("output", "kind"),
    [("x/a.cu.o", "cuda"), ("x/a.cpp.o", "c++"), ("x/a.o", "c++"), ("libx.so", "other")],
)
def test_kind_is_read_from_output_path(output: str, kind: str) -> None:
    assert classify_output(output) == kind


def test_unknown_job_may_exceed_all_observed_peaks() -> None:
    """Two jobs above all observed peaks need memory for both to double, and for one to double
    again.
    """
    assert decide_jobs(snapshot(1600, job(1, 200), job(2, 200))).paused == frozenset()
    assert decide_jobs(snapshot(1600, job(1, 300), job(2, 300))).paused == {2}
    assert decide_jobs(snapshot(1700, job(1, 300), job(2, 300))).paused == frozenset()


OBSERVED_PEAKS: dict[JobKind, tuple[int, ...]] = {"cuda": (300,) * 20, "remote": (60,) * 20}


def remote_job(pid: int, age: float = 0.0) -> Job:
    """Return a job that another machine compiles."""
    return replace(job(pid, 50, age=age), kind="remote")


def test_remote_jobs_exceed_local_slots() -> None:
    sent = [remote_job(pid) for pid in range(1, 5)]
    cuda = [replace(job(pid, 50, 300), kind="cuda") for pid in range(5, 8)]
    verdict = decide_jobs(
        replace(snapshot(9000, *sent, *cuda, most=10), local=2, shown=OBSERVED_PEAKS)
    )
    assert verdict.paused == {7}, "two nvcc jobs have a local slot, the youngest has none"
    assert verdict.jobs == 11, "one more, for the paused job"


def test_local_slots_limit_jobs_that_fell_back() -> None:
    fallen_back = [job(pid, 500, 600) for pid in range(1, 6)]
    assert decide_jobs(replace(snapshot(9000, *fallen_back, most=10), local=2)).paused == {3, 4, 5}
    assert decide_jobs(snapshot(9000, *fallen_back, most=10)).paused == frozenset()


def test_job_waiting_for_local_slot_does_not_lower_job_count() -> None:
    waiting = job(2, 50, 300, waits=60.0)
    cuda = [replace(one, kind="cuda") for one in (job(1, 50, 300), waiting)]
    verdict = decide_jobs(
        replace(snapshot(9000, *cuda, remote_job(3), most=4), local=1, shown=OBSERVED_PEAKS)
    )
    assert verdict.paused == {2}
    assert verdict.jobs == 5, "four, and one for the paused job"


def test_memory_limits_remote_jobs() -> None:
    sent = [remote_job(pid) for pid in range(1, 9)]
    verdict = decide_jobs(replace(snapshot(1000, *sent, most=40), local=2))
    assert verdict.paused
    assert verdict.jobs <= 8


def test_remote_jobs_start_without_known_peaks() -> None:
    view = snapshot(9000, remote_job(1), remote_job(2), most=20)
    assert decide_jobs(replace(view, since_grant=0.0, local=2)).jobs == 20
