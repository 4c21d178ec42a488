"""Recognition of compilers that ran out of memory, from the lines that tools print."""

from __future__ import annotations

import pytest

from tasks.diagnosis.failure_matches import ParsedLog
from tasks.diagnosis.log_lines import RawLine
from tasks.jobs import out_of_memory
from tasks.jobs.out_of_memory import KilledAttempt, RetryDecision
from tests.support.checkout import KNOWLEDGE
from tests.support.rows import each_row

FAILURES = KNOWLEDGE.failures


def parsed(lines: list[str]) -> ParsedLog:
    return ParsedLog(RawLine(number, text) for number, text in enumerate(lines, 1))


def killed_outputs(lines: list[str]) -> tuple[str, ...]:
    return out_of_memory.find_killed_outputs(FAILURES, parsed(lines))


NINJA = (
    "[3/9] Building CUDA object a/k.cu.o\nFAILED: [code={code}] a/k.cu.o \nnvcc -c k.cu -o a/k.cu.o"
)


@each_row(
    ("code", "message"),
    [
        (137, ""),
        (1, "Killed"),
        (1, "/bin/sh: line 1: 12345 Killed                  /usr/bin/nvcc -c k.cu"),
        (1, "c++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated."),
        (1, "g++: internal compiler error: Killed (program cc1plus)"),
        (1, "nvcc error   : 'cicc' died due to signal 9 (Kill signal)"),
        (2, r"C:\w\cute\layout.hpp(721): fatal error C1060: compiler is out of heap space"),
        (1, r"C:\w\tensor_impl.hpp(655): catastrophic error : out of memory"),
        (1, "virtual memory exhausted: Cannot allocate memory"),
        (1, "ptxas fatal   : Memory allocation failure"),
        (1, "terminate called after throwing an instance of 'std::bad_alloc'"),
    ],
)
def test_out_of_memory_compiler_is_recognized_with_output(code: int, message: str) -> None:
    lines = [*NINJA.format(code=code).splitlines(), *message.splitlines(), "ninja: build stopped"]
    assert killed_outputs(lines) == ("a/k.cu.o",)


@pytest.mark.parametrize(
    "message",
    [
        "k.cu(3): error: identifier Killed is undefined",
        "x.cpp:3: error: 'KilledProcess' was not declared in this scope",
        "nvcc error   : 'cicc' died due to signal 11 (Invalid memory reference)",
        "warning: out of memory handling is not implemented",
        "x.cpp:3: error: 'class std::bad_alloc' has no member named 'size'",
    ],
)
def test_other_failure_is_not_taken_for_kill(message: str) -> None:
    assert not killed_outputs([*NINJA.format(code=1).splitlines(), message])


def test_both_killed_compilers_are_named() -> None:
    lines = ["FAILED: a.o", "Killed", "FAILED: [code=137] b.o", "FAILED: c.o", "error: no"]
    assert killed_outputs(lines) == ("a.o", "b.o")


def test_kill_without_ninja_output_is_recognized() -> None:
    assert killed_outputs(["Killed"]) == ("?",)


def test_full_disk_is_recognized() -> None:
    full = ["/tmp/cc.s: Fatal error: can't close x.o: No space left on device", "error: x"]
    assert out_of_memory.is_disk_full(FAILURES, parsed(full))
    assert not out_of_memory.is_disk_full(FAILURES, parsed(["x.cpp: No such file or directory"]))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("cc1plus: out of memory allocating 9 bytes", True),
        ("Killed", False),
        ("FAILED: [code=137] a.o", False),
        ("nvcc error   : 'cicc' died due to signal 9 (Kill signal)", False),
    ],
)
def test_out_of_memory_message_differs_from_kill(message: str, expected: bool) -> None:
    assert out_of_memory.has_memory_message(FAILURES, parsed([message])) is expected


@pytest.mark.parametrize(
    ("attempt", "decision"),
    [
        (KilledAttempt(True, 8, 3), RetryDecision(True, 4)),
        (KilledAttempt(None, 3, 9), RetryDecision(True, 1)),
        (KilledAttempt(True, 1, 9), RetryDecision(False, 0)),
        (KilledAttempt(True, None, 9), RetryDecision(True, 4)),
        (KilledAttempt(True, None, 1), RetryDecision(True, 1)),
        (KilledAttempt(True, 8, 3, retries=3), RetryDecision(False, 4)),
        (KilledAttempt(False, 8, 3), RetryDecision(True)),
        (KilledAttempt(False, 8, 3, unchanged_retries=1), RetryDecision(False)),
        (KilledAttempt(False, 8, 3, names_memory=True), RetryDecision(True, 4)),
    ],
)
def test_kill_halves_jobs_unless_memory_was_sufficient(
    attempt: KilledAttempt, decision: RetryDecision
) -> None:
    assert out_of_memory.decide_retry(attempt) == decision
