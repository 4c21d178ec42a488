"""What a person sees, on a terminal and in a log."""

from __future__ import annotations

import io
from pathlib import PurePosixPath

import pytest

from tasks.console import Console
from tasks.duration import elapsed
from tasks.model import Plan, Stage


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def stage(name: str = "wheel", asks: str = "") -> Stage:
    leaves = (PurePosixPath(f"/b/{name}.json"),)
    return Stage(name, name.partition(":")[0], "", None, {}, leaves, asks=asks)  # type: ignore[arg-type]


def plan() -> Plan:
    headline = (("profile", "trial"), ("strategy", "prebuilt: it has sm_120"))
    return Plan((stage(),), stage("validate"), headline)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.delenv("CI", raising=False)
    return Terminal()


def test_in_a_log_each_line_is_written_once_and_progress_not_at_all() -> None:
    out = io.StringIO()
    console = Console(plan(), out)
    console.head()
    console.begin(stage(), "first time")
    console.tick("90 %")
    console.end(stage(), "first time", "changed")
    console.close()
    text = out.getvalue()
    assert "\r" not in text
    assert "\x1b" not in text
    assert "90 %" not in text
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[0] == "profile trial"
    assert lines[2] == "Installing wheel (first time)"
    assert lines[3].startswith("Installed wheel in ")
    assert lines[4].startswith("Finished in ")


def test_on_a_terminal_progress_replaces_itself_and_names_its_stage(terminal: Terminal) -> None:
    console = Console(plan(), terminal)
    console.begin(stage(), "first time")
    console.tick("12/340 objects")
    assert "Installing" in terminal.getvalue().rpartition("\r")[2]
    assert "12/340 objects" in terminal.getvalue()
    console.end(stage(), "first time", "changed")
    assert "(first time)" in terminal.getvalue().rpartition("\r")[2]


def test_a_line_of_progress_never_wraps(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    console = Console(plan(), terminal)
    console.begin(stage(), "first time")
    console.tick("x" * 500)
    assert len(terminal.getvalue().rpartition("\r")[2].replace("\x1b[1;36m", "")) <= 48


def test_a_run_with_nothing_to_do_says_so_at_once() -> None:
    out = io.StringIO()
    Console(plan(), out).close()
    assert "Up to date nothing to do" in " ".join(out.getvalue().split())


def test_a_stage_that_was_left_out_counts_as_nothing_done() -> None:
    out = io.StringIO()
    console = Console(plan(), out)
    console.begin(stage("extensions:a", "moved"), "its host was away")
    console.end(stage("extensions:a", "moved"), "its host was away", "skipped")
    console.close()
    assert "Skipped extensions:a" in out.getvalue()
    assert "Up to date" in out.getvalue()


def test_a_failed_run_says_that_the_rest_is_still_there() -> None:
    out = io.StringIO()
    console = Console(plan(), out)
    console.fail("wheel", "it is wrong\n  → do this")
    console.close()
    assert "it is wrong\n  → do this" in out.getvalue()
    assert "what was built before is still there" in out.getvalue()
    assert "Finished" not in out.getvalue()


def test_an_interrupted_run_does_not_say_that_it_finished() -> None:
    out = io.StringIO()
    console = Console(plan(), out)
    console.begin(stage(), "first time")
    console.interrupted = True
    console.close()
    assert "Interrupted after" in out.getvalue()
    assert "Finished" not in out.getvalue()


def test_a_card_that_came_is_a_warning_under_the_head() -> None:
    out = io.StringIO()
    Console(plan(), out, drift=lambda: "the cards here are now 9.0").head()
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
def test_elapsed_reads_as_people_say_it(seconds: float, text: str) -> None:
    assert elapsed(seconds) == text
