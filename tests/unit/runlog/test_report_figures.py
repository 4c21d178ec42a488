"""Lanes, concurrency, folders and the comparison of two runs, with values."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.runlog.build_results import BuildResults
from tasks.runlog.report_page import build_page_values, list_settings
from tasks.runlog.run_record import Edge, Run, StageRun
from tasks.runlog.run_statistics import (
    MAX_FOLDERS,
    MAX_SLOWEST,
    assign_slots,
    classify_output,
    compare_runs,
    compute_concurrency,
    compute_span,
    find_comparable_run,
    find_slowest,
    find_source_folder,
    list_edges,
    summarize_folders,
)

EDGES = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 20)).map(
        lambda pair: Edge("a.o", float(pair[0]), float(sum(pair)))
    ),
    max_size=40,
)


def run_of(*made: Edge, when: str = "2026-11-22T00:00:00", **stage: Any) -> Run:
    told: dict[str, Any] = {
        "name": "compile",
        "began": 0.0,
        "outcome": "changed",
        "seconds": 9.0,
    } | stage
    stages = (StageRun(edges=made, **told),) if made or stage else ()
    return Run(when, "0.1.0", ("build",), "p", 1, stages=stages, outcome="done")


def made(**seconds: float) -> list[Edge]:
    return [Edge(f"{name}.cpp.o", 1.0, 1.0 + took) for name, took in seconds.items()]


@given(EDGES)
def test_no_two_edges_share_a_slot_at_one_time(found: list[Edge]) -> None:
    lanes = assign_slots(found)
    assert len(lanes) == len(found)
    for lane in set(lanes):
        mine = sorted(
            (one.began, one.ended) for one, its in zip(found, lanes, strict=True) if its == lane
        )
        assert all(before[1] <= after[0] for before, after in pairwise(mine))


@given(EDGES)
def test_no_more_slots_are_drawn_than_were_busy_at_once(found: list[Edge]) -> None:
    lasting = [one for one in found if one.seconds]
    most = max((jobs for _, jobs in compute_concurrency(lasting)), default=0)
    assert max(assign_slots(lasting), default=-1) + 1 == most


@given(EDGES)
def test_the_jobs_at_work_add_up_to_the_seconds_of_the_edges(found: list[Edge]) -> None:
    steps = list(compute_concurrency(found))
    area = sum(jobs * (until - at) for (at, jobs), (until, _) in pairwise(steps))
    assert area == pytest.approx(sum(one.seconds for one in found))
    assert not steps or steps[-1][1] == 0


def test_an_edge_takes_the_lowest_slot_that_is_free() -> None:
    found = [Edge("a", 0, 4), Edge("b", 1, 2), Edge("c", 2, 3), Edge("d", 4, 5)]
    assert assign_slots(found) == (0, 1, 1, 0)
    assert compute_span(found) == (0, 5)
    run = Run("", "", (), "p", 1, stages=(StageRun("compile", 0, edges=tuple(found)),))
    results = BuildResults((), "", "", "", (), ())
    built = build_page_values(run, "", results, None, newest=True)["built"]
    assert built["mean"] == pytest.approx(7 / 5)


@pytest.mark.parametrize(
    ("output", "its_folder", "its_kind"),
    [
        ("c10/CMakeFiles/c10.dir/core/A.cpp.o", "c10/core", "C and C++"),
        ("caffe2/CMakeFiles/t.dir/__/aten/src/ATen/native/B.cu.o", "aten/src/ATen", "CUDA"),
        ("lib/libc10.so.2.1", "lib", "linked"),
        (r"build\temp\Release\ext.obj", "build/temp/Release", "C and C++"),
        ("torch_cpu.dll", ".", "linked"),
        ("gen/Ops.h", "gen", "other"),
    ],
)
def test_a_path_tells_its_folder_and_kind(output: str, its_folder: str, its_kind: str) -> None:
    assert find_source_folder(output) == its_folder
    assert classify_output(output) == its_kind


def test_time_goes_by_folder_and_what_is_left_is_one_row() -> None:
    run = run_of(*(Edge(f"f{n}/a.cpp.o", 0, n, n) for n in range(1, MAX_FOLDERS + 4)))
    found = summarize_folders(list_edges(run))
    assert found[0].path == f"f{MAX_FOLDERS + 3}"
    assert found[-1].path == "3 other folders"
    assert (found[-1].edges, found[-1].peak_mib) == (3, 3)
    assert sum(one.share for one in found) == pytest.approx(1)


def test_the_slowest_come_first_and_are_no_more_than_fifty() -> None:
    found = find_slowest(list_edges(run_of(*(Edge(f"{n}.o", 0, n) for n in range(60)))))
    assert [one.edge.seconds for one in found] == [
        float(n) for n in range(59, 59 - MAX_SLOWEST, -1)
    ]


def test_what_got_slower_is_told_with_its_seconds() -> None:
    then = run_of(*made(a=10, b=1.0, c=5, gone=3), seconds=20.0)
    now = run_of(*made(a=16, b=1.3, c=2, new=1), seconds=30.0)
    found = compare_runs(now, then)
    assert [(one.output, one.before, one.now) for one in found.slower] == [("a.cpp.o", 10, 16)]
    assert [one.output for one in found.faster] == ["c.cpp.o"]
    assert (found.both, found.new, found.gone) == (3, 1, 1)
    assert [one.difference for one in found.stages] == [10.0]


def test_one_that_failed_is_no_measure() -> None:
    then = run_of(Edge("a.o", 0, 1, failed=True))
    assert compare_runs(run_of(Edge("a.o", 0, 9)), then).both == 0


def test_a_stage_that_failed_is_not_compared() -> None:
    then = run_of(outcome="failed", seconds=2.0)
    assert compare_runs(run_of(seconds=3.0), then).stages == ()


def test_the_run_beside_is_the_newest_that_made_half_of_it() -> None:
    now = run_of(*made(a=1, b=1, c=1, d=1))
    little, half, whole = (
        run_of(*made(**dict.fromkeys(names, 1.0)), when=f"2026-11-2{day}")
        for day, names in enumerate(("a", "ab", "abcd"))
    )
    assert find_comparable_run(now, iter([run_of(), little, half, whole])) is half
    assert find_comparable_run(now, iter([run_of(), little])) is little
    assert find_comparable_run(now, iter([run_of()])) is None


def test_without_outputs_the_run_beside_is_one_with_a_stage_of_it() -> None:
    other, same = run_of(name="env"), run_of(seconds=3.0)
    assert find_comparable_run(run_of(seconds=4.0), [other, same]) is same


def test_the_flags_that_were_asked_for_are_one_row_of_names() -> None:
    flags = {"build.flags.USE_NCCL": False, "build.flags.BUILD_TEST": True}
    run = Run("", "", ("build",), "p", 1, settings={**flags, "torch.version": "2.6.0"})
    assert list(list_settings(run)) == [
        ("build.flags", "USE_NCCL: false, BUILD_TEST: true"),
        ("torch.version", "2.6.0"),
    ]
