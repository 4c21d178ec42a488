"""The first error of a log: the earliest line that is no noise, no consequence and not overcome."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.diagnosis.failure_cause import diagnose_log
from tasks.diagnosis.failure_matches import ParsedLog
from tasks.diagnosis.log_lines import RawLine
from tests.support.checkout import KNOWLEDGE
from tests.support.rows import each_row

FILE = Path(__file__).parents[1] / "failures" / "first_errors.txt"
LOGS = FILE.read_text("utf-8").rstrip("\n").partition("\n== first\n")[2].split("\n--\n")


@each_row("log", LOGS)
def test_first_error_is_found(log: str) -> None:
    lines = log.replace("\\e", "\x1b").split("\n")
    number = next(at for at, line in enumerate(lines, 1) if ">>" in line.replace(">>> ", ""))
    text = lines[number - 1].partition(">>")[2] or lines[number - 1]
    raws = [
        RawLine(at, one.replace(">>", "", 1) if at == number else one)
        for at, one in enumerate(lines, 1)
    ]
    error = diagnose_log(KNOWLEDGE.failures, ParsedLog(raws)).first_error
    assert error is not None, log
    assert error.number == number, (error, log)
    assert error.text.strip() in text.strip() or text.strip() in error.text


@pytest.mark.parametrize(
    "line",
    [
        "/usr/include/bits/a.h:66:11: error: ‘uint8_t’ does not name a type",
        "a.cpp:1:1: Fehler: »x« wurde nicht deklariert",
    ],
)
def test_first_error_is_shown_in_its_own_words(line: str) -> None:
    error = diagnose_log(KNOWLEDGE.failures, ParsedLog([RawLine(1, line)])).first_error
    assert error is not None
    assert error.text == line


def test_error_in_joined_lines_is_shown_alone() -> None:
    command = "FAILED: a.o /usr/bin/c++ " + "-I/a/include/folder " * 20
    line = f"{command}In file included from /a.cc:9: /b/types.h:66:11: error: 'x' does not name"
    error = diagnose_log(KNOWLEDGE.failures, ParsedLog([RawLine(1, line)])).first_error
    assert error is not None
    assert error.text == "/b/types.h:66:11: error: 'x' does not name"


def test_message_of_cmake_is_shown_up_to_its_full_stop() -> None:
    head = "CMake Error at /share/cmake/Modules/CMakeTestCCompiler.cmake:67 (message):"
    message = ["  The C compiler", "", '    "/usr/bin/cc"', "", "  is not able to compile."]
    raws = [RawLine(at, line) for at, line in enumerate((head, *message), 1)]
    error = diagnose_log(KNOWLEDGE.failures, ParsedLog(raws)).first_error
    assert error is not None
    assert error.text == f'{head} The C compiler "/usr/bin/cc" is not able to compile.'
