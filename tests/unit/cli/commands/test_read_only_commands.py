"""How reports look on terminals of every width, in pipes, and with limited encodings."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tasks.cli.commands import diagnose, doctor, explain, history, init, lock, matrix, restore
from tasks.cli.commands import purge as purge_report
from tasks.cli.commands import settings as settings_report
from tasks.cli.commands.matrix import EntryStatus
from tasks.cli.help_pages import COMMAND_PAGES, STAGE_PAGES
from tasks.cli.help_text import TaskRow, render_overview, render_page, render_task_list
from tasks.core.errors import TorchyardError
from tasks.core.model import ValidationResult
from tasks.core.text_layout import measure_columns
from tasks.doctor.check_result import CheckResult, report_ok, report_problem, report_warning
from tasks.lock.opened_profile_io import SelectedProfile
from tasks.stages.validate import check_results
from tasks.stages.validate.check_results import build_validation
from tasks.system import interpreters, output, screen
from tasks.system.console import Console
from tasks.system.hardware import host_probe
from tests.support.checkout import HOST, opened, write
from tests.support.rows import each_row

PROFILE = """\
target: {gpus: ['12.0', '8.9']}
torch: {strategy: source}
toolkit: {version: '13.0'}
build: {flags: {USE_NCCL: false}, env: {CXXFLAGS: "-O2 -march=native -fno-omit-frame-pointer"}}
extensions: [simple-knn, diff-gaussian-rasterization]
matrix: {torch: ["2.15.0", "2.14.1"], gpus: ["RTX 5090", ["8.9", "9.0"]]}
"""
LONG = "two words and more of them, – “quoted” × and … so on, " * 4
WIDTHS = [60, 80, 120, 200]
QUESTIONS = {"for?", "torch?", "between?", "be?"}
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Window(io.TextIOWrapper):
    """A terminal (a pipe if `tty` is False) with an encoding."""

    def __init__(self, encoding: str = "utf-8", *, tty: bool = True) -> None:
        super().__init__(io.BytesIO(), encoding=encoding, newline="\n", write_through=True)
        self.tty = tty

    def isatty(self) -> bool:
        return self.tty

    @property
    def text(self) -> str:
        self.flush()
        data: bytes = self.buffer.getvalue()  # type: ignore[attr-defined]
        return data.decode(self.encoding)

    @property
    def lines(self) -> list[str]:
        return ESCAPE.sub("", self.text).splitlines()


@pytest.fixture
def window(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Window]:
    """Set up standard output and its listener as in a run of doit."""
    for name in ("CI", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def opened_as(encoding: str = "utf-8", width: int = 80, **tty: bool) -> Window:
        window = Window(encoding, **tty)
        monkeypatch.setattr(sys, "stdout", window)
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setenv("TERM", os.environ.get("TERM_OF_TEST", "xterm"))
        output.set_listener(Console(None, window))
        return window

    return opened_as


@pytest.fixture
def subject(yard: Path, monkeypatch: pytest.MonkeyPatch) -> SelectedProfile:
    """Return a source build that has run once and failed."""
    write(yard, PROFILE)
    found: list[CheckResult] = [
        report_ok("settings", "mine"),
        report_warning("memory", LONG, f"{LONG}\n      apt install some-package another-package"),
        report_problem("compiler", LONG, "apt install g++"),
    ]
    monkeypatch.setattr(doctor, "run_host_checks", lambda *_: tuple(found))
    monkeypatch.setattr(matrix, "list_entry_statuses", lambda root, name: iter(STANDINGS))
    monkeypatch.setattr(host_probe, "list_gpus", lambda **_: ())
    monkeypatch.setattr(host_probe, "_find_toolkits", lambda path, **_: iter(()))
    monkeypatch.setattr(interpreters, "find_interpreter", lambda asked: HOST.python)
    record(yard / "build" / "mine" / "records" / "runs")
    return opened(yard)


STANDINGS = [
    EntryStatus("torch2.15.0-py3.12-rtx5090", "mine@torch2.15.0-py3.12-rtx5090", "stale", LONG),
    EntryStatus(
        "torch2.14.1-py3.12-8.9-9.0", "mine@torch2.14.1-py3.12-8.9-9.0", "impossible", LONG
    ),
]


def record(folder: Path) -> None:
    folder.mkdir(parents=True)
    settings = {"command": ["build", "extensions:simple-knn"]}
    error = {"what": LONG, "where": "build/mine/logs/compile.log", "todo": LONG}
    events = [
        {"event": "begin", "schema": 1, "when": "2026-11-22T03:40:27+00:00", "pid": 1, **settings},
        {"event": "stage", "at": 1, "stage": "compile", "reason": LONG},
        {"event": "done", "at": 2, "stage": "compile", "outcome": "failed", "error": error},
        {"event": "end", "at": 372.0, "outcome": "failed", "code": 1},
    ]  # fmt: skip
    text = "".join(f"{json.dumps(event)}\n" for event in events)
    (folder / "20261122T034027Z-1.jsonl").write_text(text, encoding="utf-8")


def show(act: Callable[[], object]) -> None:
    """Run an action and report its failure as a run does."""
    try:
        act()
    except TorchyardError as error:
        Console(None, sys.stdout).report_failure("task", str(error))


def validated() -> None:
    checks = [
        ValidationResult("import", "passed", "torch 2.15.0+cu130"),
        ValidationResult("diff-gaussian-rasterization: machine code", "failed", LONG, LONG),
        ValidationResult("matmul", "not run", "no GPU"),
    ]
    room = screen.read_terminal_width(screen.WIDE_COLUMNS, sys.maxsize)
    output.print_report(
        check_results.format_validation(
            build_validation("2.15.0+cu130", checks, (LONG,)), room, screen.colour_text
        )
    )


def helped() -> None:
    rows = [TaskRow(one.name, one.doc, "up to date") for one in STAGE_PAGES]
    rows += [TaskRow(one.name, one.doc) for one in COMMAND_PAGES]
    for line in (
        *render_task_list(rows, screen.read_terminal_width()),
        *render_overview(screen.read_terminal_width(), "mine"),
    ):
        output.print_report(line)
    for line in render_page("compile", "", screen.read_terminal_width(), "mine") or ():
        output.print_report(line)


def built(subject: SelectedProfile) -> None:
    console = Console(subject.require_profile().plan, sys.stdout, notices=lambda: [LONG])
    console.print_header()
    output.set_listener(console)
    (stage, *_) = subject.require_profile().plan.stages
    console.begin_stage(stage, LONG)
    output.print_line(LONG)
    output.print_warning(LONG)
    console.end_stage(stage, LONG, "changed")
    console.report_failure(
        stage.name, str(TorchyardError(LONG, location="build/mine/logs/a.log:3", hint=LONG))
    )
    console.print_summary()


REPORTS: Mapping[str, Callable[[SelectedProfile], object]] = {
    "build": built,
    "diagnose": diagnose.run,
    "doctor": doctor.run,
    "explain": explain.run,
    "help": lambda subject: helped(),
    "history": history.run,
    "init": init.run,
    "lock": lock.run,
    "matrix": matrix.run,
    "purge": purge_report.run,
    "restore": restore.run,
    "settings": settings_report.run,
    "validate": lambda subject: validated(),
}


def too_wide(lines: list[str], width: int) -> Iterator[str]:
    """Return lines wider than the terminal, except paths and commands, which are never wrapped."""
    for line in lines:
        word = re.sub(r"^(\s|→|->)*", "", line)
        path = max((len(one) for one in word.split() if {"/", "\\"} & set(one)), default=0)
        is_whole = " " not in word or word.startswith("apt install ") or len(word) < path + 10
        if measure_columns(line) > width and not is_whole:
            yield line


@each_row("width", WIDTHS)
@each_row("name", REPORTS)
def test_no_line_is_wider_than_the_terminal(
    name: str, width: int, subject: SelectedProfile, window: Callable[..., Window]
) -> None:
    shown = window(width=width)
    show(lambda: REPORTS[name](subject))
    assert shown.lines
    assert not list(too_wide(shown.lines, width))


@each_row("encoding", ["ascii", "cp1252", "cp437", "latin-1"])
@each_row("name", REPORTS)
def test_unencodable_characters_are_replaced(
    name: str, encoding: str, subject: SelectedProfile, window: Callable[..., Window]
) -> None:
    shown = window(encoding, 80)
    show(lambda: REPORTS[name](subject))
    assert shown.lines
    assert not list(too_wide(shown.lines, 80))
    assert not set(re.findall(r"\S*\?", shown.text)) - QUESTIONS, "a sign that nobody spelled"


@pytest.mark.parametrize("name", REPORTS)
def test_pipe_gets_no_colours_and_no_cursor_control(
    name: str, subject: SelectedProfile, window: Callable[..., Window]
) -> None:
    shown = window(tty=False)
    show(lambda: REPORTS[name](subject))
    assert "\x1b" not in shown.text
    assert "\r" not in shown.text


def painted(text: str) -> bool:
    return re.search(r"\x1b\[[0-9;]*m", text) is not None


@pytest.mark.parametrize("name", ["build", "validate"])
@pytest.mark.parametrize(
    ("given", "tty", "colours"),
    [
        ({}, True, True),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"TERM_OF_TEST": "dumb"}, True, False),
        ({"CI": "true"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "0"}, False, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
    ],
    ids=str,
)
def test_colours_follow_environment_conventions(  # noqa: PLR0917
    name: str,
    given: dict[str, str],
    tty: bool,
    colours: bool,
    subject: SelectedProfile,
    window: Callable[..., Window],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for key, value in given.items():
        monkeypatch.setenv(key, value)
    if "CI" not in given:
        monkeypatch.delenv("CI", raising=False)
    shown = window(tty=tty)
    show(lambda: REPORTS[name](subject))
    assert painted(shown.text) == colours


def test_pipe_gets_one_setting_per_line(
    subject: SelectedProfile, window: Callable[..., Window]
) -> None:
    shown = window(width=60, tty=False)
    settings_report.run(subject)
    assert len(shown.lines) >= 40


def test_refusal_fits_the_terminal_from_its_first_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr("sys.stderr", Window())
    error = str(TorchyardError(LONG.strip(), hint=f"doit build; {LONG}"))
    lines = f"ERROR: {screen.format_for_stderr(error, len('ERROR: '))}".split("\n")
    assert not list(too_wide(lines, 60))
    assert lines[1].startswith(" " * 7)
    assert any(line.startswith("  → doit build; ") for line in lines)
