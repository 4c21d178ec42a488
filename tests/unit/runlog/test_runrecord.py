"""The record of a run, read back: whole, cut anywhere, and of a later make."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tasks.runlog.run_record import Edge, Run, Sample, StageNode, parse_run
from tests.support.rows import each_row

BEGIN = {
    "event": "begin",
    "schema": 1,
    "when": "2026-11-22T03:40:27+00:00",
    "torchyard": "0.1.0",
    "command": ["build"],
    "profile": "three",
    "pid": 123,
    "host": {"system": "linux", "cores": 2},
    "asked": {"target.gpus": ["RTX 5090"]},
    "decided": {"strategy": "prebuilt", "torch": "2.15.0"},
    "stages": [{"name": "deps", "after": []}, {"name": "compile", "after": ["deps"]}],
}
EDGE = {"output": "a.cpp.o", "began": 12.1, "ended": 16.35, "peak_mib": 310, "failed": True}
SAMPLE = {"jobs": 2, "held_back": 0, "used_mib": 900, "limit_mib": 24000, "done": 4, "total": 9}
EVENTS: tuple[dict[str, Any], ...] = (
    BEGIN,
    {"event": "stage", "at": 0.2, "stage": "deps", "reason": "first time"},
    {"event": "done", "at": 1.2, "stage": "deps", "outcome": "changed", "seconds": 1.0},
    {"event": "stage", "at": 1.3, "stage": "compile", "reason": "commit changed"},
    {"event": "sample", "at": 12.0, "stage": "compile", "hit_rate": None, **SAMPLE},
    {"event": "said", "at": 13.0, "stage": "compile", "kind": "warn", "text": "little memory"},
    {"event": "edges", "at": 372.1, "stage": "compile", "edges": [EDGE]},
    {
        "event": "done",
        "at": 372.2,
        "stage": "compile",
        "outcome": "failed",
        "seconds": 370.9,
        "cache": {"hits": 3, "misses": 1},
        "error": {"what": "ninja failed", "where": "a.log", "todo": "read it"},
        "diagnosis": {"cause": "out-of-memory"},
    },
    {"event": "end", "at": 380.0, "outcome": "failed", "code": 1},
)


def lines(*events: dict[str, Any]) -> list[str]:
    return [json.dumps(event) for event in events]


def read(*events: dict[str, Any]) -> Run:
    return parse_run(lines(*events))


def test_a_whole_record_is_read() -> None:
    run = read(*EVENTS)
    assert (run.name, run.outcome, run.code) == ("20261122T034027Z-123", "failed", 1)
    assert run.graph == (StageNode("deps"), StageNode("compile", ("deps",)))
    assert [stage.name for stage in run.stages] == ["deps", "compile"]
    made = run.stages[1]
    assert (made.reason, made.outcome, made.seconds) == ("commit changed", "failed", 370.9)
    assert made.edges == (Edge("a.cpp.o", 12.1, 16.35, 310, failed=True),)
    assert made.samples == (Sample(12.0, 2, 0, 900, 24000, None, 4, 9),)
    assert made.error["what"] == "ninja failed"
    assert made.diagnosis["cause"] == "out-of-memory"
    assert [said.text for said in run.messages] == ["little memory"]
    assert (run.seconds, run.unread) == (380.0, 0)


def test_a_record_cut_anywhere_is_read_as_far_as_it_goes() -> None:
    whole = "\n".join(lines(*EVENTS))
    first = len(json.dumps(BEGIN))
    for end in range(first, len(whole)):
        run = parse_run(whole[:end].splitlines())
        assert run.profile == "three"
        assert run.outcome == ""
        assert run.unread == 0


def test_a_stage_without_an_end_has_the_seconds_up_to_its_last_sign() -> None:
    stage = read(*EVENTS[:5]).stages[1]
    assert stage.outcome == ""
    assert stage.seconds == pytest.approx(12.0 - 1.3)


def test_what_a_later_make_adds_is_passed_over() -> None:
    new = {"event": "weather", "at": 400, "text": "rain"}
    run = read({**BEGIN, "colour": "red"}, new, *EVENTS[1:])
    assert [stage.name for stage in run.stages] == ["deps", "compile"]


@pytest.mark.parametrize("line", ["{", "3", "[]", "", "null", "\x00\x00", "[" * 100_000])
def test_a_line_that_is_none_is_passed_over_and_counted(line: str) -> None:
    whole = lines(*EVENTS)
    run = parse_run([*whole[:3], line, *whole[3:]])
    assert len(run.stages) == 2
    assert run.unread == 1


@pytest.mark.parametrize(
    "edge",
    [
        {"output": 3, "began": 1, "ended": 2},
        {"output": "a.o", "began": None, "ended": 2},
        {"output": "a.o", "began": 3, "ended": 2},
        {"output": "a.o", "began": 1, "ended": float("inf")},
        {"output": "a.o"},
        "a.o",
    ],
)
def test_an_edge_without_a_time_is_none(edge: Any) -> None:
    run = read(BEGIN, {"event": "edges", "at": 9, "stage": "compile", "edges": [edge, EDGE]})
    assert [one.output for one in run.stages[0].edges] == ["a.cpp.o"]


@each_row("name", sorted(BEGIN.keys() - {"event", "schema"}))
@each_row("value", [None, 3, "x", [None], {"a": 1}, True])
def test_fields_of_another_kind_are_no_reason_to_fail(name: str, value: Any) -> None:
    assert read({**BEGIN, name: value}, *EVENTS[1:]).stages


@pytest.mark.parametrize(
    "first", [[], ["{"], ["[]"], lines(EVENTS[1]), lines({**BEGIN, "schema": 2}), ["\x00"]]
)
def test_what_begins_otherwise_is_no_record(first: list[str]) -> None:
    with pytest.raises(ValueError, match="no run record of schema 1"):
        parse_run(first)


def test_a_run_in_which_all_was_up_to_date_has_no_stage() -> None:
    assert read(BEGIN, EVENTS[-1]).stages == ()
