"""Causes that need the facts of the run: memory, exit code and disk."""

from __future__ import annotations

import pytest

from tasks.diagnosis.failure_cause import Diagnosis, diagnose_log
from tasks.diagnosis.failure_matches import ParsedLog
from tasks.diagnosis.log_lines import RawLine
from tasks.diagnosis.run_facts import RunFacts, apply_run_facts
from tests.support.checkout import KNOWLEDGE
from tests.support.rows import each_row

KILLED = (
    "FAILED: a.o\nc++ -c a.cpp -o a.o\nc++: fatal error: Killed signal terminated program cc1plus"
)
NO_MEMORY = "FAILED: a.o\ncc1plus: out of memory allocating 65536 bytes after a total of 5 bytes"
OTHER = "FAILED: a.o\nnvcc fatal   : Unsupported gpu architecture 'compute_120'\nninja: build"


def diagnose(log: str, facts: RunFacts | None) -> Diagnosis:
    raws = [RawLine(number, text) for number, text in enumerate(log.split("\n"), 1)]
    found = diagnose_log(KNOWLEDGE.failures, ParsedLog(raws))
    return apply_run_facts(facts, found, KNOWLEDGE.failures)


def slug(found: Diagnosis) -> str | None:
    return found.failure.slug if found.failure else None


@each_row(
    ("facts", "cause"),
    [
        (RunFacts(kills=1, lowest_mib=20_000, limit_mib=24_000), "oom-killed"),
        (
            RunFacts(kills=0, lowest_mib=900, limit_mib=24_000),
            "oom-killed",
        ),  # for example killed by earlyoom
        (RunFacts(kills=None, lowest_mib=900, limit_mib=24_000), "oom-killed"),
        (RunFacts(kills=0, lowest_mib=12_000, limit_mib=24_000), "interrupted"),
        (RunFacts(kills=0), "interrupted"),
        (RunFacts(kills=None, lowest_mib=20_000, limit_mib=24_000), "interrupted"),
        (RunFacts(kills=None, lowest_mib=8_000, limit_mib=24_000), None),
        (RunFacts(), None),
        (None, "oom-killed"),
    ],
)
def test_run_facts_decide_between_oom_kill_and_interrupt(
    facts: RunFacts | None, cause: str | None
) -> None:
    found = diagnose(KILLED, facts)
    assert slug(found) == cause
    assert found.by
    if cause is None:
        assert found.candidates == ("oom-killed", "interrupted")


def test_compiler_out_of_memory_message_needs_no_run_facts() -> None:
    found = diagnose(NO_MEMORY, RunFacts(kills=0, lowest_mib=20_000, limit_mib=24_000))
    assert (slug(found), found.by) == ("oom-killed", "")


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (-9, "interrupted"),
        (137, "interrupted"),
        (-15, "interrupted"),
        (130, "interrupted"),
        (-11, "crash"),
        (-4, "illegal-instruction"),
        (1, None),
    ],
)
def test_silent_end_is_diagnosed_by_exit_code(code: int, cause: str | None) -> None:
    facts = RunFacts(code=code, kills=0, lowest_mib=20_000, limit_mib=24_000)
    assert slug(diagnose("[1/2] c++ -c a.cpp -o a.o", facts)) == cause


def test_full_disk_is_diagnosed_without_log_message() -> None:
    assert slug(diagnose("[1/2] c++ -c a.cpp -o a.o", RunFacts(free_mib=0))) == "disk-full"


def test_unrelated_run_facts_do_not_change_cause() -> None:
    assert slug(diagnose(OTHER, RunFacts(code=-15, kills=3, free_mib=0))) == "nvcc-arch-unsupported"
