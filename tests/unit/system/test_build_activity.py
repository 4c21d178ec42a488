"""Build activity as text."""

from __future__ import annotations

import pytest

from tasks.core.build_activity import (
    BuildActivity,
    HeavyJob,
    Job,
    SlowOutput,
    find_heavy_jobs,
    find_slowest_outputs,
)


def job(output: str, mib: int = 0, age: float = 0.0) -> Job:
    return Job(1, output, "cuda", mib, mib, age=age)


def test_only_large_or_long_running_jobs_are_heavy() -> None:
    jobs = (job("d/a.cu.o", 1023, 59.0), job("d/b.cu.o", 1024, 1.0), job("d/c.cu.o", 10, 60.0))
    assert find_heavy_jobs(jobs) == (HeavyJob("b.cu", 1024, 1.0), HeavyJob("c.cu", 10, 60.0))


def test_largest_jobs_come_first_and_small_ones_by_duration() -> None:
    jobs = (job("a.o", 90, 70.0), job("b.o", 80, 300.0), job("c.o", 2048), job("d.o", 9000))
    assert [one.name for one in find_heavy_jobs(jobs)] == ["d", "c"]
    assert [one.name for one in find_heavy_jobs(jobs[:3])] == ["c", "b"]
    assert [one.name for one in find_heavy_jobs(jobs[:2])] == ["b", "a"]


def test_job_without_output_is_not_named() -> None:
    assert find_heavy_jobs([job("", 9000)]) == ()


@pytest.mark.parametrize(
    ("one", "facts"),
    [
        (HeavyJob("a", 4710, 190.0), "4.6 GiB 3 min"),
        (HeavyJob("a", 4710, 30.0), "4.6 GiB"),
        (HeavyJob("a", 300, 190.0), "3 min"),
    ],
)
def test_heavy_job_shows_memory_or_duration_that_makes_it_heavy(one: HeavyJob, facts: str) -> None:
    assert one.summary == facts


def test_three_slowest_outputs_are_named() -> None:
    took = {f"dir\\{n}.cu.obj": n for n in (10.0, 40.0, 50.0, 60.0, 70.0)}
    summary = ", ".join(map(str, find_slowest_outputs(took)))
    assert summary == "70.0.cu 1 min 10 s, 60.0.cu 1 min 00 s, 50.0.cu 50 s"
    assert find_slowest_outputs({"a.o": 10.0, "b.cpp.o": 30.0}) == (SlowOutput("b.cpp", 30.0),)


@pytest.mark.parametrize(
    ("moment", "counts"),
    [
        (BuildActivity(), ()),
        (BuildActivity(jobs=0), ("0 jobs",)),
        (BuildActivity(jobs=1, held_back=3), ("1 job (3 held back)",)),
        (BuildActivity(used_mib=10_035, limit_mib=24_576), ("9.8 of 24 GiB",)),
        (BuildActivity(used_mib=512, limit_mib=7782), ("0.5 of 7.6 GiB",)),
        (BuildActivity(hit_rate=0.999), ("99 % cache hits",)),
        (BuildActivity(hit_rate=0.0), ("0 % cache hits",)),
    ],
)
def test_unknown_values_are_omitted(moment: BuildActivity, counts: tuple[str, ...]) -> None:
    assert moment.counts == counts


def test_log_gets_activity_in_one_short_line() -> None:
    heavy = (
        HeavyJob("flash_fwd_hdim256_bf16_causal_sm80.cu", 14_710, 3900.0),
        HeavyJob("b.cu", 2048, 1.0),
    )
    moment = BuildActivity(16, 12, 101_000, 128_000, 0.78, heavy, (SlowOutput("Sort.cu", 179.0),))
    assert str(moment) == (
        "16 jobs (12 held back), 99 of 125 GiB, 78 % cache hits, "
        "flash_fwd_hdim256_bf16_… 14 GiB 1 h 05 min"
    )
    assert len(str(moment)) <= 160 - len("             PyTorch 15 min 29 s: 1471/1368 (34 %), ")
