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
    """A build attempt in which compilers were killed. A field is `None` if its value is unknown.

    `memory_short` is True if memory was short, `names_memory` if a compiler reported it. The
    attempt ran `jobs` jobs at once; now, memory suffices for `safe_jobs`. `retries` counts the
    earlier retries with fewer jobs, `unchanged_retries` those with the same number.
    """

    memory_short: bool | None
    jobs: int | None
    safe_jobs: int
    names_memory: bool = False
    retries: int = 0
    unchanged_retries: int = 0


@dataclass(frozen=True)
class RetryDecision:
    """The decision whether to retry a build, and with how many `jobs` (`None`: the same number)."""

    retry: bool
    jobs: int | None = None


def decide_retry(attempt: KilledAttempt) -> RetryDecision:
    """Decide whether to retry a build whose compilers were killed.

    Retry up to three times, each time with half as many jobs, but not below one. If memory was
    not short, a user or a time limit ended the compilers: retry once with the same number of jobs.
    """
    if attempt.memory_short is False and not attempt.names_memory:
        return RetryDecision(not attempt.unchanged_retries)
    jobs = max(1, attempt.safe_jobs // 2) if attempt.jobs is None else attempt.jobs // 2
    return RetryDecision(jobs > 0 and attempt.retries < _MAX_RETRIES, jobs)


def find_killed_outputs(failures: Sequence[Failure], log: ParsedLog) -> tuple[str, ...]:
    """Return the outputs whose compilers ran out of memory, "?" for an unknown one."""
    lines = log.find_lines(failures, MEMORY_SLUGS.values())
    return tuple(dict.fromkeys(line.unit if line.failed else "?" for line in lines))


def has_memory_message(failures: Sequence[Failure], log: ParsedLog) -> bool:
    """Return True if a compiler printed that memory ran out."""
    lines = log.find_lines(failures, MEMORY_SLUGS.values())
    return any(not _BY_SIGNAL.search(line.text) for line in lines)


def is_disk_full(failures: Sequence[Failure], log: ParsedLog) -> bool:
    """Return True if the log of the build contains a disk-full error."""
    return any(log.find_lines(failures, ("disk-full",)))
