"""Decide whether to retry a build after compilers were killed, and with how many jobs."""

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
    """An attempt of a build in which compilers were killed; None means unknown.

    `names_memory` is True if a compiler reported that memory ran out. `safe_jobs` is the number of
    jobs that memory allows now. `retries` counts the retries with fewer jobs.
    """

    memory_short: bool | None
    jobs: int | None
    safe_jobs: int
    names_memory: bool = False
    retries: int = 0
    unchanged_retries: int = 0


@dataclass(frozen=True)
class RetryDecision:
    """Whether to retry the build, and with how many `jobs`; None means the same number."""

    retry: bool
    jobs: int | None = None


def decide_retry(attempt: KilledAttempt) -> RetryDecision:
    """Decide whether to retry a build after a kill.

    Retry with half as many jobs, at most three times and not after an attempt with one job. If
    memory was not short, a user or a time limit killed the compiler: retry once unchanged.
    """
    if attempt.memory_short is False and not attempt.names_memory:
        return RetryDecision(not attempt.unchanged_retries)
    jobs = max(1, attempt.safe_jobs // 2) if attempt.jobs is None else attempt.jobs // 2
    return RetryDecision(jobs > 0 and attempt.retries < _MAX_RETRIES, jobs)


def find_killed_outputs(failures: Sequence[Failure], log: ParsedLog) -> tuple[str, ...]:
    """Return the outputs whose compilers ran out of memory; "?" stands for an unknown output."""
    lines = log.find_lines(failures, MEMORY_SLUGS.values())
    return tuple(dict.fromkeys(line.unit if line.failed else "?" for line in lines))


def has_memory_message(failures: Sequence[Failure], log: ParsedLog) -> bool:
    """Return True if a compiler reported that memory ran out; a killed compiler reports nothing."""
    lines = log.find_lines(failures, MEMORY_SLUGS.values())
    return any(not _BY_SIGNAL.search(line.text) for line in lines)


def is_disk_full(failures: Sequence[Failure], log: ParsedLog) -> bool:
    """Return True if the log of the build contains a disk-full error."""
    return any(log.find_lines(failures, ("disk-full",)))
