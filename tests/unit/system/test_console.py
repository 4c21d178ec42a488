"""Console output, on a terminal and in a log."""

from __future__ import annotations

import io
import itertools
import time
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from tasks.core.build_activity import BuildActivity, SlowOutput
from tasks.core.model import Plan, Stage
from tasks.core.ninja_progress import Progress
from tasks.core.text_formatting import format_duration
from tasks.system.console import Console
from tests.support.terminal import Terminal


def stage(name: str = "wheel", asks: str = "") -> Stage:
    leaves = (PurePosixPath(f"/b/{name}.json"),)
    return Stage(name, name.partition(":")[0], "", None, {}, leaves, uptodate_check=asks)  # type: ignore[arg-type]


def plan() -> Plan:
    headline = (("profile", "trial"), ("strategy", "prebuilt: it has sm_120"))
    return Plan((stage(),), stage("validate"), headline)


def test_log_gets_each_line_once_and_no_progress() -> None:
    out = io.StringIO()
    console = Console(plan(), out)
    console.print_header()
    console.begin_stage(stage(), "first time")
    console.show_progress("x.cpp", Progress(90, 100))
    console.end_stage(stage(), "first time", "changed")
    console.print_summary()
    text = out.getvalue()
    assert "\r" not in text
    assert "\x1b" not in text
    assert "90/100" not in text
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[0] == "profile trial"
    assert lines[2] == "Installing wheel (first time)"
    assert lines[3].startswith("Installed wheel in ")
    assert lines[4].startswith("Finished in ")


def test_long_build_logs_one_line_per_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count(step=1.0)
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    out = io.StringIO()
    console = Console(plan(), out)
    console.begin_stage(stage("compile"), "first time")
    for done in range(1, 229):
        console.show_progress("x.cpp", Progress(done, 228, 228.0 - done, BuildActivity(jobs=2)))
    console.end_stage(stage("compile"), "first time", "changed")
    lines = [" ".join(line.split()) for line in out.getvalue().splitlines()]
    assert lines == [
        "Compiling PyTorch (first time)",
        "Compiling PyTorch 1 min 00 s: 60/228 (26 %), about 3 min left, 2 jobs",
        "Compiling PyTorch 2 min 00 s: 120/228 (52 %), about 2 min left, 2 jobs",
        "Compiling PyTorch 3 min 00 s: 180/228 (78 %), about 50 s left, 2 jobs",
        "Compiled PyTorch in 3 min 49 s",
    ]


def test_terminal_progress_line_is_replaced_and_names_stage(terminal: Terminal) -> None:
    console = Console(plan(), terminal)
    console.begin_stage(stage(), "first time")
    console.show_progress("x.cpp", Progress(12, 340))
    moving = terminal.last
    console.end_stage(stage(), "first time", "changed")
    assert moving.startswith("  Installing wheel 0.0 s [")
    assert moving.endswith("] 12/340 3 %, x.cpp")
    assert terminal.last.startswith("   Installed wheel in 0.0 s (first time)")


def test_terminal_activity_is_shown_below_and_removed_at_end(terminal: Terminal) -> None:
    console = Console(plan(), terminal)
    console.begin_stage(stage("compile"), "first time")
    slowest = (SlowOutput("Sort.cu", 179.0),)
    console.show_progress(
        "x.cpp", Progress(12, 340, at_work=BuildActivity(jobs=2, slowest=slowest))
    )
    console.print_line("a line to keep")
    kept, first, *below = terminal.rows
    assert kept == f"{'':13}a line to keep"
    assert first.endswith("] 12/340 3 %, x.cpp")
    assert below == [f"{'':13}2 jobs", f"{'':13}slowest: Sort.cu 2 min 59 s"]
    console.end_stage(stage("compile"), "first time", "changed")
    assert terminal.rows == [kept, "    Compiled PyTorch in 0.0 s (first time)", ""]


def test_low_terminal_shows_one_line(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINES", "14")
    console = Console(plan(), terminal)
    console.begin_stage(stage("compile"), "first time")
    console.show_progress("x.cpp", Progress(12, 340, at_work=BuildActivity(jobs=2)))
    (only,) = terminal.rows
    assert only.endswith("12/340 3 %, 2 jobs, x.cpp")
    console.print_summary()


def test_terminal_progress_line_never_wraps(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    console = Console(plan(), terminal)
    console.begin_stage(stage(), "first time")
    console.show_progress("x" * 500)
    assert len(terminal.last) == 37
    monkeypatch.setenv("COLUMNS", "100")
    console.show_progress("x" * 500)
    assert len(terminal.last) == 97
    console.print_summary()


def test_child_output_after_its_stage_is_not_shown(terminal: Terminal) -> None:
    console = Console(plan(), terminal)
    console.begin_stage(stage(), "first time")
    console.print_summary()
    before = terminal.getvalue()
    console.show_progress("x.cpp", Progress(12, 340))
    assert terminal.getvalue() == before


@pytest.mark.parametrize("gone", [BrokenPipeError, ValueError])
def test_closed_pipe_does_not_stop_reading_child(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, gone: type[Exception]
) -> None:
    console = Console(plan(), terminal)
    console.begin_stage(stage(), "first time")
    with monkeypatch.context() as closed:
        closed.setattr(terminal, "write", lambda _: (_ for _ in ()).throw(gone))
        console.show_progress("x.cpp", Progress(12, 340))
    console.print_summary()


def test_interrupt_is_acknowledged_immediately(terminal: Terminal) -> None:
    console = Console(plan(), terminal)
    console.begin_stage(stage(), "first time")
    console.interrupted = True
    console.show_progress("x.cpp")
    assert terminal.last.startswith("    Stopping wheel")
    console.print_summary()


@pytest.mark.parametrize(
    ("name", "begun", "done"),
    [
        ("deps", "Preparing deps", "Prepared deps in"),
        ("source", "Reading source", "Read source in"),
        ("env", "Rendering env", "Rendered env in"),
        ("compile", "Compiling PyTorch", "Compiled PyTorch in"),
        ("wheel", "Installing wheel", "Installed wheel in"),
        ("extensions:smoke", "Building extensions:smoke", "Built extensions:smoke in"),
        ("validate", "Validating the build", "Validated the build in"),
    ],
)
def test_stage_messages_use_natural_verbs(name: str, begun: str, done: str) -> None:
    out = io.StringIO()
    console = Console(plan(), out)
    console.begin_stage(stage(name), "first time")
    console.end_stage(stage(name), "first time", "changed")
    first, last = out.getvalue().splitlines()
    assert first.strip() == f"{begun} (first time)"
    assert last.strip().startswith(done)


def test_run_with_nothing_to_do_says_up_to_date() -> None:
    out = io.StringIO()
    Console(plan(), out).print_summary()
    assert "Up to date nothing to do" in " ".join(out.getvalue().split())


def test_skipped_stage_counts_as_nothing_done() -> None:
    out = io.StringIO()
    console = Console(plan(), out)
    console.begin_stage(stage("extensions:a", "moved"), "its host was away")
    console.end_stage(stage("extensions:a", "moved"), "its host was away", "skipped")
    console.print_summary()
    assert "Skipped extensions:a" in out.getvalue()
    assert "Up to date" in out.getvalue()


@pytest.mark.parametrize("built", ["nothing", "before", "in this run"])
def test_failed_run_reports_whether_earlier_build_remains(tmp_path: Path, built: str) -> None:
    out = io.StringIO()
    manifest = tmp_path / "wheel.json"
    if built == "before":
        manifest.touch()
    console = Console(replace(plan(), stages=(replace(stage(), outputs=(manifest,)),)), out)
    console.print_header()
    manifest.unlink(missing_ok=True)  # a stage removes its manifest when it begins
    if built == "in this run":
        console.begin_stage(stage(), "first time")
        console.end_stage(stage(), "first time", "changed")
    console.report_failure("extensions:a", "it is wrong\n  → do this")
    console.print_summary()
    assert "it is wrong\n  → do this" in out.getvalue()
    assert ("the finished stages are kept" in out.getvalue()) == (built != "nothing")
    assert "Finished" not in out.getvalue()


def test_interrupted_run_is_not_reported_as_finished() -> None:
    out = io.StringIO()
    console = Console(plan(), out)
    console.begin_stage(stage(), "first time")
    console.interrupted = True
    console.print_summary()
    assert "Interrupted after" in out.getvalue()
    assert "Finished" not in out.getvalue()


def test_changed_gpus_are_warned_about_below_header() -> None:
    out = io.StringIO()
    Console(plan(), out, notices=lambda: ["the cards here are now 9.0"]).print_header()
    assert out.getvalue().splitlines()[-1].split() == [
        "Warning",
        "the",
        "cards",
        "here",
        "are",
        "now",
        "9.0",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (59, "59 s"), (185, "3 min 05 s"), (8040, "2 h 14 min")],
)
def test_duration_is_formatted_for_people(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
