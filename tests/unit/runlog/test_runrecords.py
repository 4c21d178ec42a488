"""The folder of a profile's records: what is read, what is set aside, how large it gets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tasks.runlog import run_record_io
from tasks.runlog.run_record import Edge
from tasks.runlog.run_record_io import RunRecorder
from tasks.system import files
from tests.support.checkout import ROOT, Heard
from tests.unit.cli.running.test_graph import Bench

NOBODY = 4_000_000  # above what a kernel gives
BEGIN = {"event": "begin", "schema": 1, "when": "2026-11-22T03:40:27+00:00", "command": ["build"]}
KILLED = """
import os, signal, sys
from pathlib import Path
from tasks.system import files
from tasks.runlog.run_record_io import RunRecorder

build = Path(sys.argv[1])
files.create_owned_folder(build)
with files.lock_folder(build):
    record = RunRecorder(build / "records" / "runs", lambda: {"command": ["build"]})
    record.start_record()
    with record.record_stage("compile", "first time"):
        record.record_message("say", "half of it")
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "build" / "p" / "records" / "runs"
    found.mkdir(parents=True)
    return found


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def put(folder: Path, second: int, text: str = "", pid: int = NOBODY) -> Path:
    """A record of that second."""
    path = folder / f"20261122T0340{second:02}Z-{pid}.jsonl"
    begin = {**BEGIN, "when": f"2026-11-22T03:40:{second:02}+00:00", "pid": pid}
    path.write_text(text or f"{json.dumps(begin)}\n", encoding="utf-8")
    return path


def test_the_newest_run_is_the_first(folder: Path) -> None:
    for second in (3, 1, 2):
        put(folder, second)
    (folder / "note.txt").touch()
    assert [run.when[17:19] for run in run_record_io.read_runs(folder)] == ["03", "02", "01"]


def test_where_nothing_was_built_there_are_none(tmp_path: Path) -> None:
    assert list(run_record_io.read_runs(tmp_path / "nothing")) == []


@pytest.mark.parametrize(
    "text", ["\n", "{", "[1]\n", '{"event": "begin", "schema": 9}\n', "\0" * 99]
)
def test_what_is_no_record_is_set_aside_and_the_others_are_read(
    folder: Path, heard: Heard, text: str
) -> None:
    put(folder, 1)
    bad = put(folder, 2, text)
    assert len(list(run_record_io.read_runs(folder))) == 1
    aside = bad.with_name(f"{bad.name}.corrupt")
    assert aside.read_text(encoding="utf-8") == text
    assert str(aside) in heard.text
    heard.clear()
    assert len(list(run_record_io.read_runs(folder))) == 1
    assert heard == []


def test_one_that_a_process_at_work_has_just_opened_is_left_alone(
    folder: Path, heard: Heard
) -> None:
    fresh = put(folder, 1, "\n", pid=os.getpid())
    assert list(run_record_io.read_runs(folder)) == []
    assert fresh.exists()
    assert heard == []


def test_a_cut_last_line_is_no_reason_for_a_word(folder: Path, heard: Heard) -> None:
    put(folder, 1, f'{json.dumps(BEGIN)}\n{{"event": "stage", "at": 1.0, "stage": "deps"}}\n{{"ev')
    (run,) = run_record_io.read_runs(folder)
    assert (run.outcome, run.unread, [stage.name for stage in run.stages]) == ("", 0, ["deps"])
    assert heard == []


def test_a_text_may_hold_what_only_unicode_calls_the_end_of_a_line(folder: Path) -> None:
    said = {"event": "said", "at": 1.0, "stage": "deps", "kind": "warn", "text": "a\u2028b\x85c"}
    put(folder, 1, "\n".join(json.dumps(one, ensure_ascii=False) for one in (BEGIN, said)))
    (run,) = run_record_io.read_runs(folder)
    assert [one.text for one in run.messages] == ["a\u2028b\x85c"]
    assert run.unread == 0


def test_who_holds_the_lock_is_at_work_and_nobody_else(folder: Path) -> None:
    build = folder.parents[1]
    put(folder, 1, json.dumps({**BEGIN, "pid": os.getpid()}), pid=os.getpid())
    (run,) = run_record_io.read_runs(folder)
    assert not run_record_io.is_run_active(folder, run)
    with files.lock_folder(build):
        assert run_record_io.is_run_active(folder, run)


def test_a_killed_run_leaves_a_record_that_can_be_read_and_the_next_run_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, monkeypatch)
    argv = [sys.executable, "-c", KILLED, str(bench.layout.build)]
    code = subprocess.run(argv, cwd=ROOT, check=False).returncode
    assert code != 0
    (cut,) = run_record_io.read_runs(bench.records)
    assert cut.outcome == ""
    assert not run_record_io.is_run_active(bench.records, cut)
    assert [(stage.name, stage.outcome) for stage in cut.stages] == [("compile", "")]
    assert [one.text for one in cut.messages] == ["half of it"]
    assert bench.doit() == 0
    assert [run.outcome for run in run_record_io.read_runs(bench.records)] == ["done", ""]


def test_only_the_newest_fifty_stay(folder: Path) -> None:
    for second in range(58):
        put(folder, second)
    corrupt = put(folder, 1)
    corrupt.rename(corrupt.with_name(f"{corrupt.name}.corrupt"))
    for _ in range(3):
        record = RunRecorder(folder)
        record.start_record()
        record.finish_record("done", 0)
    kept = sorted(path.name for path in folder.iterdir())
    assert len(kept) == run_record_io.MAX_RUNS
    assert kept[0].startswith("20261122T034011Z")


def test_all_of_them_together_stay_small(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_record_io, "MAX_RECORDS_BYTES", run_record_io._RESERVED_BYTES + 2000)
    for second in range(9):
        put(folder, second, f"{json.dumps(BEGIN)}\n{'x' * 500}")
    run_record_io.prune_records(folder)
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 2000
    assert [run.when[:4] for run in run_record_io.read_runs(folder)] == ["2026"] * 3


def told(folder: Path, second: int, *events: dict[str, object]) -> Path:
    """A record with these events, as a build writes them."""
    begin = {**BEGIN, "when": f"2026-11-22T03:40:{second:02}+00:00", "pid": NOBODY}
    return put(folder, second, "".join(f"{json.dumps(event)}\n" for event in (begin, *events)))


EDGES: dict[str, object] = {"event": "edges", "at": 1.0, "stage": "compile", "edges": []}
CHANGED: dict[str, object] = {"event": "done", "at": 1.0, "stage": "deps", "outcome": "changed"}
IDLE: dict[str, object] = {"event": "end", "at": 1.0, "outcome": "failed", "code": 1}


def test_runs_that_failed_at_once_do_not_push_out_the_build(folder: Path) -> None:
    build, small = told(folder, 0, EDGES, CHANGED), told(folder, 1, CHANGED)
    for second in range(2, 58):
        told(folder, second, IDLE)
        run_record_io.prune_records(folder)
    kept = {path.name for path in folder.iterdir()}
    assert {build.name, small.name} <= kept
    assert len(kept) == run_record_io.MAX_RUNS - 1


def test_the_last_that_compiled_and_the_last_of_all_stay(folder: Path) -> None:
    compiled = [told(folder, second, EDGES) for second in range(4)]
    for second in range(4, 55):
        told(folder, second, CHANGED)
    last = [told(folder, second, IDLE) for second in (55, 56, 57)]
    run_record_io.prune_records(folder)
    assert [path.exists() for path in compiled] == [False, True, True, True]
    assert all(path.exists() for path in last)
    assert len(list(folder.iterdir())) == run_record_io.MAX_RUNS - 1


def test_what_a_build_writes_is_known_as_such(bench: Bench) -> None:
    assert bench.doit() == 0
    (path,) = Path(bench.records).iterdir()
    assert run_record_io._read_marks(path) == {run_record_io._CHANGED_MARK}
    record = RunRecorder(bench.records)
    record.start_record()
    record.record_edges([Edge("a.o", 1.0, 2.0)])
    record.finish_record("failed", 1)
    newest = max(Path(bench.records).iterdir(), key=lambda one: one.stat().st_mtime_ns)
    assert run_record_io._read_marks(newest) == {run_record_io._COMPILED_MARK}


@pytest.mark.parametrize("name", ["stat", "unlink"])
def test_one_that_cannot_be_removed_is_no_reason_for_no_record(
    folder: Path, heard: Heard, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Of another user, or a file that is open elsewhere on Windows."""
    stubborn = put(folder, 0)
    for second in range(1, 58):
        put(folder, second)
    whole = getattr(Path, name)

    def refusing(path: Path, **given: bool) -> object:
        if path == stubborn:
            raise PermissionError(13, "Permission denied", str(path))
        return whole(path, **given)

    monkeypatch.setattr(Path, name, refusing)
    record = RunRecorder(folder)
    record.start_record()
    record.finish_record("done", 0)
    assert len(list(folder.iterdir())) in {run_record_io.MAX_RUNS, run_record_io.MAX_RUNS + 1}
    assert heard == []
    assert next(run_record_io.read_runs(folder)).outcome == "done"
