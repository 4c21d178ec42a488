"""Decide how many compilers run after some were killed: half as many if memory was short."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.diagnosis.failure_matches import ParsedLog
from tasks.knowledge.facts import Failure

MEMORY_SLUGS = {"nt": "oom-win", "posix": "oom-killed"}
_BY_SIGNAL = re.compile(r"kill|signal:? 9\b|\b137\b|-9\b", re.IGNORECASE)
_MAX_RETRIES = 3  # with fewer jobs, after the first attempt


@dataclass(frozen=True)
class KilledAttempt:
    """An attempt of a build in which compilers were killed.

    `memory_short`: whether memory was short during the attempt, None if unknown; `names_memory`:
    whether a compiler reported that memory ran out. `jobs` ran at once, None if the build chose its
    number; `safe_jobs` is the number that memory allows now. `retries` counts the earlier retries
    with fewer jobs, `unchanged_retries` those with the same number.
    """

    memory_short: bool | None
    jobs: int | None
    safe_jobs: int
    names_memory: bool = False
    retries: int = 0
    unchanged_retries: int = 0


@dataclass(frozen=True)
class RetryDecision:
    """Whether to retry the build, and with how many `jobs`; None: as before, memory sufficed."""

    retry: bool
    jobs: int | None = None


def decide_retry(attempt: KilledAttempt) -> RetryDecision:
    """Decide whether to retry a build after a kill.

    Retry with half as many jobs, three times at most and not after a single job. If memory was not
    short, retry once with the same number: a user or a time limit killed the compiler.
    """
    if attempt.memory_short is False and not attempt.names_memory:
        return RetryDecision(not attempt.unchanged_retries)
    jobs = max(1, attempt.safe_jobs // 2) if attempt.jobs is None else attempt.jobs // 2
    return RetryDecision(jobs > 0 and attempt.retries < _MAX_RETRIES, jobs)


def find_killed_outputs(failures: Sequence[Failure], log: ParsedLog) -> tuple[str, ...]:
    """Return the outputs whose compilers ran out of memory, "?" where Ninja named none."""
    lines = log.find_lines(failures, MEMORY_SLUGS.values())
    return tuple(dict.fromkeys(line.unit if line.failed else "?" for line in lines))


def has_memory_message(failures: Sequence[Failure], log: ParsedLog) -> bool:
    """Return True if a compiler itself reported that memory ran out; a killed one cannot."""
    lines = log.find_lines(failures, MEMORY_SLUGS.values())
    return any(not _BY_SIGNAL.search(line.text) for line in lines)


def is_disk_full(failures: Sequence[Failure], log: ParsedLog) -> bool:
    """Return True if the disk was full; other errors usually follow this one."""
    return any(log.find_lines(failures, ("disk-full",)))
