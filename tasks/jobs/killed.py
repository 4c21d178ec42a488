"""Which compilers ran out of memory, or of disk, by what a build printed. Pure.

The kernel kills one and Ninja tells a plain failure: the word is on a line of its own, seldom the
last (nvcc prints `Killed` and nothing else). What the tools say is a fact, and read as the
diagnosis reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from tasks.diagnosis.hits import match_failures
from tasks.diagnosis.lines import LogLine, RawLine, parse_lines
from tasks.knowledge.facts import Failure

MEMORY_SLUGS = {"nt": "oom-win", "posix": "oom-killed"}
_BY_SIGNAL = re.compile(r"kill|signal:? 9\b|\b137\b|-9\b", re.IGNORECASE)


def is_disk_full(failures: Sequence[Failure], lines: Iterable[str]) -> bool:
    """Whether the disk was full, which is mostly followed by other errors."""
    return any(_find_lines_about(failures, ("disk-full",), lines))


def has_memory_message(failures: Sequence[Failure], lines: Iterable[str]) -> bool:
    """Whether a compiler says so itself; one that was killed could not say why."""
    found = _find_lines_about(failures, MEMORY_SLUGS.values(), lines)
    return any(not _BY_SIGNAL.search(line.text) for line in found)


def find_killed_outputs(failures: Sequence[Failure], lines: Iterable[str]) -> tuple[str, ...]:
    """The outputs whose compilers ran out of memory, "?" where Ninja named none; () for none."""
    found = _find_lines_about(failures, MEMORY_SLUGS.values(), lines)
    return tuple(dict.fromkeys(line.unit if line.failed else "?" for line in found))


def _find_lines_about(
    failures: Sequence[Failure], slugs: Iterable[str], lines: Iterable[str]
) -> Iterator[LogLine]:
    """The lines that tell one of these causes."""
    wanted = set(slugs)
    read = list(parse_lines(RawLine(number, text) for number, text in enumerate(lines, 1)))
    known = [one for one in failures if one.slug in wanted]
    return (read[hit.at] for hit in match_failures(known, read))
