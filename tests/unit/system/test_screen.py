"""Permanent lines, live lines, and terminals with few capabilities."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from tasks.core.text_layout import ASCII_GLYPHS, BLOCK_GLYPHS, DrawingArea
from tasks.system import screen
from tasks.system.screen import Screen
from tests.support.checkout import ROOT
from tests.support.terminal import Terminal


def beats() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if "_redraw_until" in thread.name]


def until(terminal: Terminal, text: str) -> None:
    for _ in range(1000):
        if text in terminal.getvalue():
            return
        time.sleep(0.01)
    raise AssertionError(terminal.getvalue())


def test_elapsed_time_updates_during_silent_stage(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screen, "_REDRAW_INTERVAL", 0.01)
    drawn = iter(range(1_000_000))
    shown = Screen(terminal)
    shown.start_live_lines(lambda *_: f"drawn {next(drawn)}")
    until(terminal, "drawn 3")
    shown.stop_live_lines()
    assert not beats()
    assert terminal.getvalue().endswith("\r\x1b[2K")


def test_permanent_line_is_written_above_live_line(terminal: Terminal) -> None:
    shown = Screen(terminal)
    shown.start_live_lines(lambda *_: "moving")
    shown.write_lines("kept")
    assert terminal.getvalue().endswith("\r\x1b[2Kkept\n\x1b[1;36mmoving\x1b[0m")
    shown.stop_live_lines()


def test_live_lines_can_change_in_number_and_leave_nothing(
    terminal: Terminal,
) -> None:
    drawn = iter(("1\n2\n3", "one", "uno\ndue", "", "1\n2\n3"))
    shown = Screen(terminal)
    shown.write_lines("kept before")
    shown.start_live_lines(lambda _: next(drawn))
    seen = [terminal.rows]
    for _ in range(4):
        shown.redraw_live_lines()
        seen.append(terminal.rows)
    assert [rows[1:] for rows in seen] == [
        ["1", "2", "3"],
        ["one"],
        ["uno", "due"],
        [""],
        ["1", "2", "3"],
    ]
    shown.stop_live_lines()
    shown.write_lines("kept after")
    assert terminal.rows == ["kept before", "kept after", ""]


def test_permanent_line_is_written_above_all_live_lines(terminal: Terminal) -> None:
    shown = Screen(terminal)
    shown.start_live_lines(lambda _: "1\n2\n3")
    shown.write_lines("kept")
    assert terminal.rows == ["kept", "1", "2", "3"]
    shown.stop_live_lines()


def test_all_live_lines_are_erased_after_terminal_shrinks(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = Screen(terminal)
    shown.start_live_lines(lambda space: f"{'m' * space.columns}\nshort\n{'n' * space.columns}")
    monkeypatch.setenv("COLUMNS", "40")
    shown.redraw_live_lines()
    assert "\x1b[6A\r\x1b[J" in terminal.getvalue()  # 97 columns are three rows of 40
    shown.stop_live_lines()


def test_drawing_callback_gets_terminal_size(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = Screen(terminal)
    shown.start_live_lines(lambda space: f"{space.columns}x{space.rows}")
    monkeypatch.setenv("LINES", "10")
    shown.redraw_live_lines()
    assert terminal.last == "97x10"
    shown.stop_live_lines()


def test_lines_of_many_threads_do_not_interleave(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screen, "_REDRAW_INTERVAL", 0.001)
    shown = Screen(terminal)
    shown.start_live_lines(lambda *_: "m" * 20)

    def write() -> None:
        for _ in range(50):
            shown.write_lines("k" * 50)

    writers = [threading.Thread(target=write) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    shown.stop_live_lines()
    moving = f"\x1b[1;36m{'m' * 12}\x1b[0m{'m' * 8}\r\x1b[2K"
    assert set(terminal.getvalue().replace(moving, "").split("\n")) == {"k" * 50, ""}


def test_live_line_is_erased_after_terminal_shrinks(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = Screen(terminal)
    shown.start_live_lines(lambda space: "m" * space.columns)
    monkeypatch.setenv("COLUMNS", "40")
    shown.redraw_live_lines()
    assert "\x1b[2A\r\x1b[J" in terminal.getvalue()
    assert terminal.last == "m" * 37
    shown.stop_live_lines()


@pytest.mark.parametrize(("name", "value"), [("CI", "true"), ("TERM", "dumb")])
def test_output_is_not_live_without_interactive_terminal(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    assert not Screen(terminal).live


def ascii_log() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="ascii", newline="\n")


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("a… → b", b"a... -> b\n"),
        ("“é”", b'"?"\n'),
        ("/home/\udce9t\udce9/x", b"/home/\xe9t\xe9/x\n"),
    ],
)
def test_unencodable_text_is_replaced_by_ascii(text: str, spelled: bytes) -> None:
    log = ascii_log()
    Screen(log).write_lines(text)
    assert log.buffer.getvalue() == spelled  # type: ignore[attr-defined]


def test_glyphs_follow_terminal_encoding(terminal: Terminal) -> None:
    assert Screen(ascii_log()).glyphs == ASCII_GLYPHS
    assert Screen(terminal).glyphs == BLOCK_GLYPHS


@pytest.mark.parametrize("profile", ["quickstart", "…"])
def test_c_locale_causes_no_error(profile: str) -> None:
    env = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "TORCHYARD_PROFILE": profile}
    argv = [sys.executable, "-m", "doit", "settings"]
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, check=False)
    assert b"UnicodeEncodeError" not in done.stdout + done.stderr
    assert done.returncode == (0 if profile == "quickstart" else 1)


ENDS = """
import signal, sys, time
from tasks.system.screen import Screen
sys.stdout.isatty = lambda: True
shown = Screen(sys.stdout)
def leave(number, _):
    raise SystemExit(128 + number)
signal.signal(signal.SIGTERM, leave)
def draw(space):
    return "moving"
shown.start_live_lines(draw)
try:
    print("ready", file=sys.stderr, flush=True)
    while True:
        shown.write_lines("x")
finally:
    shown.stop_live_lines()
    shown.write_lines("left")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_signal_during_write_neither_hangs_nor_breaks_exit() -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"}
    env.pop("CI", None)
    child = subprocess.Popen(
        [sys.executable, "-c", ENDS], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stderr
    assert child.stderr.readline() == b"ready\n"
    child.send_signal(signal.SIGTERM)
    out, err = child.communicate(timeout=120)
    assert (child.returncode, err) == (143, b"")
    assert out.endswith(b"left\n")


def test_closed_terminal_stops_redraw_thread(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screen, "_REDRAW_INTERVAL", 0.01)

    def gone(_: DrawingArea) -> str:
        if threading.current_thread() is not threading.main_thread():
            raise OSError("gone")
        return "moving"

    shown = Screen(terminal)
    shown.start_live_lines(gone)
    for _ in range(1000):
        if not beats():
            break
        time.sleep(0.01)
    assert not beats()
    shown.stop_live_lines()
