"""Who killed a compiler, and what an exit code alone tells, by the facts of the run."""

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


def told(log: str, facts: RunFacts | None) -> Diagnosis:
    raws = [RawLine(number, text) for number, text in enumerate(log.split("\n"), 1)]
    found = diagnose_log(KNOWLEDGE.failures, ParsedLog(raws))
    return apply_run_facts(facts, found, KNOWLEDGE.failures)


def slug(found: Diagnosis) -> str | None:
    return found.failure.slug if found.failure else None


@each_row(
    ("facts", "cause"),
    [
        (RunFacts(kills=1, lowest_mib=20_000, limit_mib=24_000), "oom-killed"),
        (RunFacts(kills=0, lowest_mib=900, limit_mib=24_000), "oom-killed"),  # an earlyoom, perhaps
        (RunFacts(kills=None, lowest_mib=900, limit_mib=24_000), "oom-killed"),
        (RunFacts(kills=0, lowest_mib=12_000, limit_mib=24_000), "interrupted"),
        (RunFacts(kills=0), "interrupted"),
        (RunFacts(kills=None, lowest_mib=20_000, limit_mib=24_000), "interrupted"),
        (RunFacts(kills=None, lowest_mib=8_000, limit_mib=24_000), None),
        (RunFacts(), None),
        (None, "oom-killed"),
    ],
)
def test_killed_is_for_memory_or_by_somebody(facts: RunFacts | None, cause: str | None) -> None:
    found = told(KILLED, facts)
    assert slug(found) == cause
    assert found.by
    if cause is None:
        assert found.candidates == ("oom-killed", "interrupted")


def test_a_compiler_that_says_memory_needs_no_witness() -> None:
    found = told(NO_MEMORY, RunFacts(kills=0, lowest_mib=20_000, limit_mib=24_000))
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
def test_an_end_without_a_word_is_told_by_its_code(code: int, cause: str | None) -> None:
    facts = RunFacts(code=code, kills=0, lowest_mib=20_000, limit_mib=24_000)
    assert slug(told("[1/2] c++ -c a.cpp -o a.o", facts)) == cause


def test_a_disk_without_room_is_told_though_the_log_had_none_for_the_words() -> None:
    assert slug(told("[1/2] c++ -c a.cpp -o a.o", RunFacts(free_mib=0))) == "disk-full"


def test_what_the_log_tells_is_not_changed_by_facts_of_another_kind() -> None:
    assert slug(told(OTHER, RunFacts(code=-15, kills=3, free_mib=0))) == "nvcc-arch-unsupported"
