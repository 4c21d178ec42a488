"""The rails beside the stages, and what became of each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tasks.runlog.report_graphics import GraphRow, lay_out_graph
from tasks.runlog.report_page import describe_outcomes, format_headline
from tasks.runlog.run_record import Run, StageNode, StageRun

GRAPH = (
    StageNode("deps"),
    StageNode("source"),
    StageNode("env", ("deps", "source")),
    StageNode("compile", ("deps", "source", "env")),
    StageNode("wheel", ("compile", "deps")),
    StageNode("extensions:a", ("deps", "wheel")),
    StageNode("extensions:b", ("deps", "wheel")),
)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[StageNode, ...]:
    names = [f"s{number}" for number in range(draw(st.integers(0, 9)))]
    earlier = (st.sampled_from(names[:place] or ["none"]) for place in range(len(names)))
    afters = [draw(st.sets(before)) for before in earlier]
    return tuple(
        StageNode(name, tuple(sorted(after))) for name, after in zip(names, afters, strict=True)
    )


def test_a_line_leads_only_from_the_nearest() -> None:
    found = {row.name: row for row in lay_out_graph(GRAPH)}
    assert found["compile"].nearest == ("env",)
    assert found["env"].nearest == ("deps", "source")
    assert found["extensions:b"].nearest == ("wheel",)


def test_a_chain_stays_on_one_rail_and_a_fork_leaves_it() -> None:
    found = lay_out_graph(GRAPH)
    assert [row.rail for row in found] == [0, 1, 0, 0, 0, 1, 0]
    assert found[5] == GraphRow("extensions:a", 1, (0,), (0,), False, ("wheel",))
    assert not found[6].down


@given(graphs())
def test_each_line_goes_on_until_it_arrives(graph: tuple[StageNode, ...]) -> None:
    below: set[int] = set()
    for row in lay_out_graph(graph):
        assert row.rail not in row.through
        assert set(row.after) | set(row.through) == below
        assert len(row.after) == len(row.nearest)
        below = {*row.through, *([row.rail] if row.down else [])}
    assert not below


def run_of(outcome: str, **stages: str) -> Run:
    did = tuple(StageRun(name, 0.0, outcome=one) for name, one in stages.items())
    return Run("", "", (), "p", 1, graph=GRAPH, stages=did, outcome=outcome, seconds=61.0)


def test_what_comes_after_a_failure_was_not_reached() -> None:
    found = describe_outcomes(run_of("failed", compile="failed"))
    assert found["deps"] == "up to date"
    assert found["compile"] == "failed"
    assert found["wheel"] == found["extensions:b"] == "not reached"


def test_a_stage_without_an_end_is_unfinished() -> None:
    found = describe_outcomes(run_of("", compile=""))
    assert found["compile"] == "unfinished"
    assert found["wheel"] == "not reached"


def test_a_stage_that_the_plan_lacks_is_told_too() -> None:
    assert describe_outcomes(run_of("done", validate="changed"))["validate"] == "changed"


def test_the_headline_says_how_it_ended() -> None:
    assert format_headline(run_of("failed", compile="failed")) == "compile failed after 1 min 01 s"
    assert format_headline(run_of("done", compile="changed")) == "Built in 1 min 01 s"
    assert format_headline(run_of("done")) == "Up to date in 1 min 01 s"
    assert format_headline(run_of("interrupted")) == "Interrupted after 1 min 01 s"
    assert format_headline(run_of("")) == "Unfinished after 1 min 01 s"
    assert format_headline(run_of(""), is_running=True) == "Running for 1 min 01 s so far"
