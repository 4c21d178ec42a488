"""The record that a run leaves, through doit itself."""

from __future__ import annotations

import errno
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from io import FileIO
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tasks.core.build_activity import BuildActivity
from tasks.core.errors import TorchyardError
from tasks.core.ninja_progress import Progress
from tasks.jobs.job_scheduler_io import JobScheduler
from tasks.runlog import run_record_io
from tasks.runlog.run_record import Edge, Run, parse_run
from tasks.runlog.run_record_io import RunRecorder
from tasks.stages.extensions import extension_build_io
from tasks.system import files, output
from tests.support.checkout import Heard
from tests.unit.cli.running.test_graph import Bench

INDEX = "https://me:hunter2@index.example/simple?token=hunter3"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def record_of(bench: Bench) -> list[dict[str, Any]]:
    """The events of the only run."""
    (path,) = Path(bench.records).iterdir()
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def last(bench: Bench) -> Run:
    return next(run_record_io.read_runs(bench.records))


def outcomes(run: Run) -> dict[str, str]:
    return {stage.name: stage.outcome for stage in run.stages}


def test_every_stage_of_a_run_is_told_with_its_reason_and_what_came_of_it(bench: Bench) -> None:
    assert bench.doit() == 0
    events = record_of(bench)
    assert [event["event"] for event in events] == ["begin", *["stage", "done"] * 2, "end"]
    begin, stage, done, *_, end = events
    assert begin["schema"] == 1
    assert begin["command"] == ["build"]
    assert begin["pid"] == os.getpid()
    assert (stage["stage"], stage["reason"]) == ("deps", "first time")
    assert (done["outcome"], done["outputs"], done["error"]) == ("changed", {"value": "same"}, None)
    assert done["seconds"] >= 0
    assert (end["outcome"], end["code"]) == ("done", 0)
    times = [event["at"] for event in events[1:]]
    assert times == sorted(times)


def test_a_run_that_found_nothing_to_do_has_a_begin_and_an_end(bench: Bench) -> None:
    bench.doit()
    bench.doit()
    run = last(bench)
    assert (run.stages, run.outcome, run.code) == ((), "done", 0)
    assert run.command == ("build",)


def test_a_run_without_any_build_leaves_nothing(bench: Bench) -> None:
    assert bench.doit("compile") == 0  # which is no part of it
    assert bench.doit("list") == 0
    assert not Path(bench.layout.build).exists()


def test_one_who_only_looks_is_on_no_record(bench: Bench) -> None:
    bench.doit()
    bench.doit("list")
    bench.doit("clean")
    assert len(list(run_record_io.read_runs(bench.records))) == 1


def test_a_failure_is_told_with_what_where_and_what_to_do(bench: Bench) -> None:
    def fail() -> str:
        raise TorchyardError("the wheel is wrong", location="a.log:3", hint="do this")

    bench.acts["wheel"] = fail
    assert bench.doit() == 1
    run = last(bench)
    assert (run.outcome, run.code) == ("failed", 1)
    assert outcomes(run) == {"deps": "changed", "wheel": "failed"}
    error = {"what": "the wheel is wrong", "where": "a.log:3", "todo": "do this"}
    assert run.stages[1].error == error


def test_what_was_done_about_a_failure_on_the_way_is_told(bench: Bench) -> None:
    assert bench.doit() == 0
    assert "auto_fix" not in json.dumps(record_of(bench)), "nothing was"
    bench.inputs, bench.healed = {"flag": "B"}, "build.jobs: 2"
    assert bench.doit() == 0
    deps = last(bench).stages[0]
    assert deps.auto_fix == "build.jobs: 2"
    assert deps.full_reason.endswith("was A; auto-fix: build.jobs: 2")


def test_a_bug_of_ours_is_a_failure_with_code_2(bench: Bench) -> None:
    bench.acts["wheel"] = lambda: str(1 // 0)
    assert bench.doit() == 2
    run = last(bench)
    assert (run.outcome, run.code) == ("failed", 2)
    assert str(run.stages[1].error["what"]).startswith("ZeroDivisionError")


def test_what_stopped_a_build_before_it_began_is_told_where_one_was_built(bench: Bench) -> None:
    def stop() -> None:
        raise TorchyardError("1 problem: disk")

    bench.doit()
    bench.inputs, bench.gate = {"flag": "B"}, stop
    assert bench.doit() == 1
    run = last(bench)
    assert outcomes(run) == {"deps": "failed"}
    assert run.stages[0].error["what"] == "1 problem: disk"


def test_an_interrupted_run_says_so(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    handlers: dict[int, Any] = {}
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)

    def interrupted() -> str:
        handlers[signal.SIGTERM](signal.SIGTERM, None)
        raise AssertionError("it goes on")

    bench.acts["wheel"] = interrupted
    with pytest.raises(SystemExit):
        bench.doit()
    run = last(bench)
    assert (run.outcome, run.code) == ("interrupted", 143)
    assert outcomes(run) == {"deps": "changed", "wheel": "stopped"}


def test_a_lock_that_another_run_holds_leaves_no_record_of_this_one(bench: Bench) -> None:
    bench.doit()
    with files.lock_folder(bench.layout.build):
        assert bench.doit() == 0
        bench.inputs = {"flag": "B"}
        assert bench.doit() == 1
    assert len(list(run_record_io.read_runs(bench.records))) == 1


def test_what_a_stage_says_shows_and_makes_is_in_its_record(bench: Bench) -> None:
    def act() -> str:
        output.print_line("_C.so holds 12.0")
        output.print_warning(f"{INDEX} is slow")
        output.show_progress(
            "a.cpp", Progress(1, 3, at_work=BuildActivity(2, 1, 900, 24_000, 0.78))
        )
        output.show_progress("b.cpp", Progress(2, 3))
        run_record_io.record_edges([Edge("a.o", 0.0, 0.0, 310), Edge("b.o", 1.0, 1.0, failed=True)])
        run_record_io.record_cache(3, 1)
        return "same"

    bench.acts["wheel"] = act
    assert bench.doit() == 0
    run = last(bench)
    wheel = run.stages[1]
    assert [(one.stage, one.kind, one.text) for one in run.messages] == [
        ("wheel", "say", "_C.so holds 12.0"),
        ("wheel", "warn", "https://***@index.example/simple?token=*** is slow"),
    ]
    (sample,) = wheel.samples  # the other came in less than 2 s
    assert (sample.jobs, sample.held_back, sample.used_mib) == (2, 1, 900)
    assert (sample.hit_rate, sample.done, sample.total) == (0.78, 1, 3)
    assert [(one.output, one.peak_mib, one.failed) for one in wheel.edges] == [
        ("a.o", 310, False),
        ("b.o", None, True),
    ]
    assert wheel.cache == {"hits": 3, "misses": 1}
    assert run.stages[0].cache == {}


def test_extensions_side_by_side_speak_each_for_itself(bench: Bench) -> None:
    bench.more = (bench.stage("extensions:a", "wheel"), bench.stage("extensions:b", "wheel"))

    def telling(name: str) -> Callable[[], str]:
        def act() -> str:
            output.print_line(f"I am {name}")
            return "same"

        return act

    bench.acts = {f"extensions:{name}": telling(name) for name in "ab"}
    assert bench.doit() == 0
    said = {one.stage: one.text for one in last(bench).messages}
    assert said == {"extensions:a": "I am a", "extensions:b": "I am b"}


class Diagnosed(TorchyardError):  # noqa: N818 - it is of this test alone
    """A failure whose log was read."""

    diagnosis: Mapping[str, Any] | None = MappingProxyType({"cause": "oom-killed"})


@pytest.fixture
def record(tmp_path: Path) -> Iterator[RunRecorder]:
    """One that has begun."""
    head = {"asked": {"torch.index": INDEX}}
    begun = RunRecorder(tmp_path / "runs", lambda: head)
    begun.start_record()
    yield begun
    begun.finish_record("done", 0)


def lines(tmp_path: Path) -> list[str]:
    (path,) = (tmp_path / "runs").iterdir()
    return path.read_text(encoding="utf-8").splitlines()


def test_nothing_that_opens_a_url_or_is_called_a_secret_is_kept(
    tmp_path: Path, record: RunRecorder
) -> None:
    with record.record_stage("env", f"index: {INDEX}") as done:
        done.outputs = {"set": {"API_TOKEN": "hunter4", "CC": "clang"}, "index": INDEX}
    with pytest.raises(TorchyardError), record.record_stage("wheel", ""):
        raise TorchyardError(f"{INDEX} does not answer", location=INDEX, hint=f"see {INDEX}")
    record.finish_record("failed", 1)
    text = "\n".join(lines(tmp_path))
    assert "hunter" not in text
    assert parse_run(lines(tmp_path)).stages[0].outputs["set"] == {
        "API_TOKEN": "***",
        "CC": "clang",
    }


def test_what_a_log_told_of_a_failure_is_beside_it(tmp_path: Path, record: RunRecorder) -> None:
    with pytest.raises(TorchyardError), record.record_stage("compile", ""):
        raise Diagnosed("it does not compile")
    assert parse_run(lines(tmp_path)).stages[0].diagnosis == {"cause": "oom-killed"}


def test_what_is_large_in_a_manifest_is_left_out(tmp_path: Path, record: RunRecorder) -> None:
    with record.record_stage("wheel", "") as done:
        done.outputs = {"files": ["x" * 100] * 300, "name": "torch"}
    assert parse_run(lines(tmp_path)).stages[0].outputs == {"name": "torch"}


def test_many_edges_are_told_in_lines_of_a_thousand(tmp_path: Path, record: RunRecorder) -> None:
    start = record.started
    record.record_edges(Edge(f"{n}.o", start + n, start + n + 1.5) for n in range(2500))
    told = [json.loads(line)["edges"] for line in lines(tmp_path)[1:]]
    assert [len(edges) for edges in told] == [1000, 1000, 500]
    assert told[0][1] == {"output": "1.o", "began": 1.0, "ended": 2.5}


def test_what_was_made_and_cannot_be_read_is_told_and_ends_nothing(
    tmp_path: Path, heard: Heard, record: RunRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: Any) -> Any:
        raise OSError(errno.EIO, "Input/output error")

    output.set_listener(heard)
    monkeypatch.setattr("tasks.jobs.ninja_steps_io.build_edges", gone)
    run_record_io.record_edges(
        extension_build_io._read_edges(tmp_path, JobScheduler(1, tmp_path, {}))
    )
    (said,) = heard
    assert said.startswith(
        "the build succeeded, but its record lacks the outputs of a stage: OSError: "
    )
    assert said.endswith("Input/output error")


def test_samples_become_rarer_in_a_build_of_many_hours(
    tmp_path: Path, record: RunRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(RunRecorder, "compute_elapsed", lambda _: clock[0])
    for second in range(10_000):
        clock[0] = float(second)
        record.record_sample(Progress(second, 10_000))
    times = [json.loads(line)["at"] for line in lines(tmp_path)[1:]]
    assert times[:3] == [0.0, 2.0, 4.0]
    assert times[1100] - times[1099] == 4.0
    assert len(times) < 3000


def test_a_full_disk_is_one_warning_and_every_line_that_is_there_is_whole(
    tmp_path: Path, heard: Heard, record: RunRecorder
) -> None:
    output.set_listener(heard)
    whole = FileIO.write

    def half(file: FileIO, data: bytes) -> int:
        return whole(file, data[: len(data) // 2])

    class Full(FileIO):
        write = half  # type: ignore[assignment]

    (path,) = (tmp_path / "runs").iterdir()
    opened = record._file
    assert opened
    record._file = Full(path, "r+")
    record._file.seek(0, os.SEEK_END)
    for _ in range(3):
        record.record_message("say", "x" * 100)
    assert [line for line in heard if "incomplete" in line] == [
        f"the record of this run is incomplete: {tmp_path / 'runs'}: {os.strerror(errno.ENOSPC)}"
    ]
    record._file.close()
    record._file = opened  # somebody made room
    record.finish_record("done", 0)
    run = parse_run(lines(tmp_path))
    assert (run.outcome, run.unread) == ("done", 0)


def test_who_writes_while_the_record_ends_is_not_ended_by_it(
    tmp_path: Path, record: RunRecorder
) -> None:
    """Its file is closed, and gone for the others, in one step."""
    writing, closing = threading.Event(), threading.Event()
    failed: list[Exception] = []

    class Slow(FileIO):
        def close(self) -> None:
            super().close()
            closing.set()
            writing.wait(0.2)  # which the lock does not let come

    def write() -> None:
        closing.wait(5)
        try:
            record.record_message("say", "late")
        except ValueError as error:
            failed.append(error)
        writing.set()

    (path,) = (tmp_path / "runs").iterdir()
    assert record._file
    record._file.close()
    record._file = Slow(path, "a")
    late = threading.Thread(target=write)
    late.start()
    record.finish_record("done", 0)
    late.join()
    assert failed == []
    assert "late" not in path.read_text(encoding="utf-8")


def test_a_place_that_cannot_be_written_ends_no_build(bench: Bench) -> None:
    files.create_owned_folder(bench.layout.build)
    Path(bench.layout.build, "records").touch()  # where the folder would have to be
    assert bench.doit() == 0
    assert bench.out.getvalue().count("the record of this run is incomplete") == 1
    assert bench.doit() == 0
