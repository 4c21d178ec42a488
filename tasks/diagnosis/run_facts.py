"""Correct a diagnosis with facts of the run that the log lacks.

The facts tell who killed a compiler, and whether the disk was full.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tasks.diagnosis.failure_cause import Diagnosis
from tasks.knowledge.facts import Failure

_KILL_CODES = {-9, 137}  # SIGKILL, as reported by Python and by a shell
_STOP_CODES = {-2, 130, -15, 143, -1, 129}  # INT, TERM, HUP
_CRASH_CODES = {-6, 134, -7, 135, -8, 136, -11, 139}
_ILLEGAL_CODES = {-4, 132}
_MEMORY_WORDS = re.compile(r"memory|bad_alloc|oom", re.IGNORECASE)
_SHORT = 10  # memory is short if less than one part in this many was left
_PLENTY = 4


@dataclass(frozen=True)
class RunFacts:
    """The facts of a run whose command failed.

    `size` is the length of the log in bytes, which shows whether the facts belong to the log;
    `begun` is the offset at which the output of the failed command begins; `code` is its exit code,
    the negative signal number if a signal ended it. `kills` counts the processes that the kernel
    killed for lack of memory meanwhile, None if unknown. `lowest_mib` is the minimum of the
    available memory, of `limit_mib`; `free_mib` is the free space on the log's disk afterwards.
    `jobs` is the number of compilers at once. `compiler` is path and version of the C++ compiler,
    "" if unknown.
    """

    size: int = 0
    begun: int = 0
    code: int = 1
    kills: int | None = None
    lowest_mib: int | None = None
    limit_mib: int | None = None
    free_mib: int | None = None
    jobs: int | None = None
    compiler: str = ""


def apply_run_facts(
    facts: RunFacts | None, found: Diagnosis, failures: Sequence[Failure]
) -> Diagnosis:
    """Return the diagnosis, corrected by the facts of the run; None for a log without facts."""
    if _is_unexplained_kill(found):
        return _explain_kill(facts, found, failures)
    if facts is None or found.failure or found.candidates:
        return found
    if facts.code in _KILL_CODES and not found.first_error:
        return _explain_kill(facts, found, failures)
    if slug := _find_slug_by_code(facts):
        evidence = f"it ended with {facts.code}, and printed no cause"
        return replace(_replace_failure(found, failures, slug), by=evidence)
    return found


def _is_unexplained_kill(found: Diagnosis) -> bool:
    """Return True if the log reports a kill, but not that memory was the reason."""
    if found.failure is None or found.failure.slug != "oom-killed":
        return False
    return not (found.first_error and _MEMORY_WORDS.search(found.first_error.text))


def _explain_kill(
    facts: RunFacts | None, found: Diagnosis, failures: Sequence[Failure]
) -> Diagnosis:
    if facts is None:
        return replace(found, by="the log alone, which does not tell who killed it")
    is_short, evidence = assess_memory_pressure(facts)
    if is_short is None:
        return replace(found, failure=None, candidates=("oom-killed", "interrupted"), by=evidence)
    return replace(
        _replace_failure(found, failures, "oom-killed" if is_short else "interrupted"), by=evidence
    )


def assess_memory_pressure(facts: RunFacts) -> tuple[bool | None, str]:
    """Return whether memory was short during the run, None if not certain, and the evidence."""
    lowest = ""
    if facts.lowest_mib is not None and facts.limit_mib:
        lowest = f"{facts.lowest_mib:,} of {facts.limit_mib:,} MiB of memory were left at the least"
    if facts.kills:
        return True, "; ".join(filter(None, (_format_kill_count(facts.kills), lowest)))
    if facts.lowest_mib is None or not facts.limit_mib:
        evidence = "the kernel ended nothing for want of memory meanwhile"
        return (False, evidence) if facts.kills == 0 else (None, "nobody looked at the memory")
    if facts.lowest_mib * _SHORT < facts.limit_mib:
        return True, lowest
    if facts.kills == 0:
        return False, f"{lowest}, and the kernel ended nothing for want of it"
    return (False if facts.lowest_mib * _PLENTY > 3 * facts.limit_mib else None), lowest


def _format_kill_count(kills: int) -> str:
    programs = "one program" if kills == 1 else f"{kills} programs"
    return f"the kernel ended {programs} for want of memory meanwhile"


def _find_slug_by_code(facts: RunFacts) -> str:
    if facts.free_mib == 0:
        return "disk-full"
    kinds = (
        (_STOP_CODES, "interrupted"),
        (_CRASH_CODES, "crash"),
        (_ILLEGAL_CODES, "illegal-instruction"),
    )
    return next((slug for codes, slug in kinds if facts.code in codes), "")


def _replace_failure(found: Diagnosis, failures: Sequence[Failure], slug: str) -> Diagnosis:
    failure = next(candidate for candidate in failures if candidate.slug == slug)
    return replace(found, failure=failure, candidates=(slug,))
