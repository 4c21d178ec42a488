"""Correct a diagnosis with facts of the run: what killed a compiler, or whether a disk was full."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tasks.diagnosis.failure_cause import Diagnosis
from tasks.knowledge.facts import Failure

_KILL_CODES = {-9, 137}  # SIGKILL, as reported by Python and by a shell
_SLUGS_BY_CODE = {
    **dict.fromkeys((-2, 130, -15, 143, -1, 129), "interrupted"),  # INT, TERM, HUP
    **dict.fromkeys((-6, 134, -7, 135, -8, 136, -11, 139), "crash"),
    **dict.fromkeys((-4, 132), "illegal-instruction"),
}
_MEMORY_WORDS = re.compile(r"memory|bad_alloc|oom", re.IGNORECASE)
_SHORT = 10  # memory is short if less than 1/_SHORT of the limit was left
_PLENTY = 4


@dataclass(frozen=True)
class RunFacts:
    """The facts of a run whose command failed.

    `size` is the length of the log in bytes, to check that the facts belong to the log. The output
    of the failed command begins at byte `begun`. `code` is its exit code (negative: a signal).
    `kills` counts the processes that the kernel killed for lack of memory. `lowest_mib` is the
    least available memory of the run, `limit_mib` the memory limit. `free_mib` is the free space on
    the log's disk after the run. `jobs` is the number of parallel compilers. `compiler` is the path
    and version of the C++ compiler.
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
    """Return the diagnosis, corrected by `facts`; `None` means that no facts are known."""
    if found.failure and found.failure.slug == "oom-killed":
        # the log reports a kill, but may not say that memory was the reason
        is_explained = found.first_error and _MEMORY_WORDS.search(found.first_error.text)
        return found if is_explained else _explain_kill(facts, found, failures)
    if facts is None or found.failure or found.candidates:
        return found
    if facts.code in _KILL_CODES and not found.first_error:
        return _explain_kill(facts, found, failures)
    slug = "disk-full" if facts.free_mib == 0 else _SLUGS_BY_CODE.get(facts.code)
    if slug is None:
        return found
    evidence = f"the command ended with {facts.code} and printed no cause"
    return replace(_replace_failure(found, failures, slug), by=evidence)


def _explain_kill(
    facts: RunFacts | None, found: Diagnosis, failures: Sequence[Failure]
) -> Diagnosis:
    if facts is None:
        return replace(found, by="only the log, which does not show what killed the process")
    is_short, evidence = assess_memory_pressure(facts)
    if is_short is None:
        return replace(found, failure=None, candidates=("oom-killed", "interrupted"), by=evidence)
    slug = "oom-killed" if is_short else "interrupted"
    return replace(_replace_failure(found, failures, slug), by=evidence)


def assess_memory_pressure(facts: RunFacts) -> tuple[bool | None, str]:
    """Return True if memory was short during the run, `None` if uncertain, and the evidence."""
    programs = f"{facts.kills} program{'s' * (facts.kills > 1)}" if facts.kills else "no program"
    killed = f"the kernel killed {programs} because memory ran out"
    if facts.lowest_mib is None or not facts.limit_mib:
        if facts.kills is None:
            return None, "the memory was not measured"
        return bool(facts.kills), killed
    lowest = f"at least {facts.lowest_mib:,} of {facts.limit_mib:,} MiB of memory were available"
    if facts.kills:
        return True, f"{killed}; {lowest}"
    if facts.lowest_mib * _SHORT < facts.limit_mib:
        return True, lowest
    if facts.kills == 0:
        return False, f"{lowest}, and {killed}"
    return (False if facts.lowest_mib * _PLENTY > 3 * facts.limit_mib else None), lowest


def _replace_failure(found: Diagnosis, failures: Sequence[Failure], slug: str) -> Diagnosis:
    failure = next(candidate for candidate in failures if candidate.slug == slug)
    return replace(found, failure=failure, candidates=(slug,))
