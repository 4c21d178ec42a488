"""How many jobs may run, and who is paused, by values."""

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
    """A job as old as its number is small, so that 1 is the oldest."""
    age = age or 100.0 - pid
    return Job(pid, f"{pid}.o", "c++", resident, resident, expected, age, waits)


def under(available: int, *jobs: Job, idle: int = 0, most: int = 8) -> BuildSnapshot:
    """A limit of 10,000 MiB, so that the margin is 500."""
    return BuildSnapshot(10_000, available, jobs, idle, most, LIGHT, since_grant=60.0)


def test_all_may_run_where_there_is_room() -> None:
    assert decide_jobs(ROOMY).jobs == 16


def test_never_more_than_the_most() -> None:
    assert decide_jobs(replace(ROOMY, most=4)).jobs == 4


@pytest.mark.parametrize("available", [0, 100, 500])
def test_one_always_runs(available: int) -> None:
    assert decide_jobs(replace(ROOMY, available_mib=available)).jobs == 1
    verdict = decide_jobs(under(available, job(1, 4000, 6000), job(2, 4000, 6000)))
    assert verdict.jobs >= 1
    assert verdict.paused == {2}


def test_unknown_jobs_begin_with_what_is_usual_for_their_kind() -> None:
    view = BuildSnapshot(limit_mib=16 * GIB, available_mib=15 * GIB, running=(), idle=1, most=16)
    assert decide_jobs(view).jobs == 14  # of 1 GiB, under a margin of 0.8
    assert decide_jobs(replace(view, shown={"c++": (300,) * 9})).jobs == 16


def test_one_job_more_a_second_while_nobody_knows_what_they_come_to() -> None:
    at_work = under(9000, job(1, 50), job(2, 50))
    assert decide_jobs(at_work).jobs == 3
    assert decide_jobs(replace(at_work, since_grant=0.5)).jobs == 2


def test_as_many_as_fit_where_all_are_known() -> None:
    assert (
        decide_jobs(replace(under(9000, job(1, 50, 300), job(2, 50, 300)), since_grant=0.5)).jobs
        == 8
    )
    # 1400 − 500 − 2 × 250 leave 400: two more
    assert decide_jobs(under(1400, job(1, 50, 300), job(2, 50, 300))).jobs == 4


def test_jobs_that_may_start_unasked_are_reserved_for() -> None:
    assert decide_jobs(under(1400, job(1, 50, 300), job(2, 50, 300), idle=2)).jobs == 4
    assert decide_jobs(under(1000, job(1, 50, 300), job(2, 50, 300), idle=2)).jobs == 2


def test_newcomer_that_does_not_fit_is_paused() -> None:
    verdict = decide_jobs(under(4000, job(1, 1000, 1200), job(2, 10, 6000), job(3, 10, 300)))
    assert verdict.paused == {2}
    assert verdict.jobs == 3


def test_what_waits_goes_on_when_there_is_room() -> None:
    waiting = job(2, 10, 6000, waits=3.0)
    assert decide_jobs(under(4000, job(1, 1000, 1200), waiting)).paused == {2}
    assert decide_jobs(under(7500, job(1, 1000, 1200), waiting)).paused == frozenset()


def test_the_oldest_of_those_that_wait_comes_first() -> None:
    waiting = (job(2, 10, 3000, waits=3.0), job(3, 10, 3000, waits=2.0))
    assert decide_jobs(under(5000, job(1, 1000, 1200), *waiting)).paused == {3}


def test_who_runs_has_what_it_was_given_before_those_that_wait() -> None:
    verdict = decide_jobs(
        under(3000, job(1, 10, 2000, waits=5.0), job(2, 500, 2000), job(3, 500, 1000))
    )
    assert verdict.paused == {1}


def test_someone_goes_on_where_all_wait() -> None:
    verdict = decide_jobs(under(600, job(1, 3000, 6000, waits=1.0), job(2, 3000, 3500, waits=1.0)))
    assert verdict.paused == {1}


def test_no_more_jobs_while_one_waits_and_fewer_when_it_waits_long() -> None:
    def jobs(waits: float) -> int:
        return decide_jobs(
            under(3000, job(1, 500, 600), job(2, 10, 6000, waits=waits), idle=2)
        ).jobs

    assert jobs(1.0) == 2
    assert jobs(11.0) == 1


def test_job_past_what_it_came_to_last_time_may_grow_further() -> None:
    steady, grown = job(2, 1000, 1000), job(2, 1300, 1000)
    assert decide_jobs(under(800, job(1, 100, 100), steady)).paused == frozenset()
    assert decide_jobs(under(800, job(1, 100, 100), grown)).paused == {2}


def test_a_job_that_is_done_growing_is_not_paused_for_want_of_memory() -> None:
    assert decide_jobs(under(100, job(1, 900, 2000), job(2, 1000, 1000))).paused == frozenset()


def test_seen_peaks_stand_for_unknown_jobs_of_the_same_kind_alone() -> None:
    cuda = replace(job(2, 10), kind="cuda")
    assert decide_jobs(under(3000, job(1, 10), cuda)).paused == {2}
    assert decide_jobs(under(3000, job(1, 10), job(2, 10))).paused == frozenset()


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
def test_command_lines_tell_output_and_kind(command: str, output: str, kind: str) -> None:
    assert (find_output_path(command), classify_command(command)) == (output, kind)


@pytest.mark.parametrize(
    ("output", "kind"),
    [("x/a.cu.o", "cuda"), ("x/a.cpp.o", "c++"), ("x/a.o", "c++"), ("libx.so", "other")],
)
def test_outputs_tell_their_kind(output: str, kind: str) -> None:
    assert classify_output(output) == kind


def test_one_that_nobody_knows_may_come_to_more_than_all_before() -> None:
    """Two that are past all that was seen: room for both to double, and for one to do so again."""
    assert decide_jobs(under(1600, job(1, 200), job(2, 200))).paused == frozenset()
    assert decide_jobs(under(1600, job(1, 300), job(2, 300))).paused == {2}
    assert decide_jobs(under(1700, job(1, 300), job(2, 300))).paused == frozenset()


SEEN: dict[JobKind, tuple[int, ...]] = {"cuda": (300,) * 20, "remote": (60,) * 20}


def elsewhere(pid: int, age: float = 0.0) -> Job:
    """One that another machine compiles."""
    return replace(job(pid, 50, age=age), kind="remote")


def test_what_is_sent_goes_beyond_the_places_that_are_here() -> None:
    sent = [elsewhere(pid) for pid in range(1, 5)]
    cuda = [replace(job(pid, 50, 300), kind="cuda") for pid in range(5, 8)]
    verdict = decide_jobs(replace(under(9000, *sent, *cuda, most=10), local=2, shown=SEEN))
    assert verdict.paused == {7}, "two of nvcc's have a place, the youngest has not"
    assert verdict.jobs == 11, "one more, for the one that waits"


def test_places_that_are_here_bound_what_no_worker_took() -> None:
    fallen_back = [job(pid, 500, 600) for pid in range(1, 6)]
    assert decide_jobs(replace(under(9000, *fallen_back, most=10), local=2)).paused == {3, 4, 5}
    assert decide_jobs(under(9000, *fallen_back, most=10)).paused == frozenset()


def test_who_waits_for_a_place_lets_others_go_on_however_long() -> None:
    waiting = job(2, 50, 300, waits=60.0)
    cuda = [replace(one, kind="cuda") for one in (job(1, 50, 300), waiting)]
    verdict = decide_jobs(replace(under(9000, *cuda, elsewhere(3), most=4), local=1, shown=SEEN))
    assert verdict.paused == {2}
    assert verdict.jobs == 5, "four, and one for that which waits"


def test_memory_bounds_what_is_sent_as_well() -> None:
    sent = [elsewhere(pid) for pid in range(1, 9)]
    verdict = decide_jobs(replace(under(1000, *sent, most=40), local=2))
    assert verdict.paused
    assert verdict.jobs <= 8


def test_jobs_that_are_sent_need_not_be_known_to_be_many_at_once() -> None:
    view = under(9000, elsewhere(1), elsewhere(2), most=20)
    assert decide_jobs(replace(view, since_grant=0.0, local=2)).jobs == 20
