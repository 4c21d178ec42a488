"""Which compilers ran out of memory: lines as the tools print them."""

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


def killed(lines: list[str]) -> tuple[str, ...]:
    return out_of_memory.find_killed_outputs(FAILURES, parsed(lines))


NINJA = (
    "[3/9] Building CUDA object a/k.cu.o\nFAILED: [code={code}] a/k.cu.o \nnvcc -c k.cu -o a/k.cu.o"
)


@each_row(
    ("code", "said"),
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
def test_a_compiler_without_memory_is_recognised_with_what_it_made(code: int, said: str) -> None:
    lines = [*NINJA.format(code=code).splitlines(), *said.splitlines(), "ninja: build stopped"]
    assert killed(lines) == ("a/k.cu.o",)


@pytest.mark.parametrize(
    "said",
    [
        "k.cu(3): error: identifier Killed is undefined",
        "x.cpp:3: error: 'KilledProcess' was not declared in this scope",
        "nvcc error   : 'cicc' died due to signal 11 (Invalid memory reference)",
        "warning: out of memory handling is not implemented",
        "x.cpp:3: error: 'class std::bad_alloc' has no member named 'size'",
    ],
)
def test_another_failure_is_not_taken_for_it(said: str) -> None:
    assert not killed([*NINJA.format(code=1).splitlines(), said])


def test_two_that_were_killed_at_once_are_both_named() -> None:
    lines = ["FAILED: a.o", "Killed", "FAILED: [code=137] b.o", "FAILED: c.o", "error: no"]
    assert killed(lines) == ("a.o", "b.o")


def test_where_ninja_names_none_it_is_told_all_the_same() -> None:
    assert killed(["Killed"]) == ("?",)


def test_a_full_disk_is_told_from_what_follows_it() -> None:
    full = ["/tmp/cc.s: Fatal error: can't close x.o: No space left on device", "error: x"]
    assert out_of_memory.is_disk_full(FAILURES, parsed(full))
    assert not out_of_memory.is_disk_full(FAILURES, parsed(["x.cpp: No such file or directory"]))


@pytest.mark.parametrize(
    ("said", "so"),
    [
        ("cc1plus: out of memory allocating 9 bytes", True),
        ("Killed", False),
        ("FAILED: [code=137] a.o", False),
        ("nvcc error   : 'cicc' died due to signal 9 (Kill signal)", False),
    ],
)
def test_a_compiler_that_says_memory_is_told_from_one_that_was_killed(said: str, so: bool) -> None:
    assert out_of_memory.has_memory_message(FAILURES, parsed([said])) is so


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
def test_after_a_kill_half_of_the_jobs_run_unless_memory_was_not_short(
    attempt: KilledAttempt, decision: RetryDecision
) -> None:
    assert out_of_memory.decide_retry(attempt) == decision
