"""Which compilers ran out of memory, or of disk, by what a build printed. Pure.

The kernel kills one and Ninja tells a plain failure: the word is on a line of its own, seldom the
last (nvcc prints `Killed` and nothing else). MSVC says C1060, cicc and cudafe++ have words of their
own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

CAUSE = {"nt": "oom-win", "posix": "oom-killed"}
_FAILED = re.compile(r"\s*FAILED: (?:\[code=(?P<code>\d+)\] )?(?P<output>\S+)")
_ENDED = re.compile(
    r"^\s*(?:\S*: line \d+:\s+\d+ )?Killed(?:\s|$)"
    r"|Killed signal terminated program|internal compiler error: Killed"
    r"|(?:died|terminated)[^\n]{0,40}signal 9\b|\bexit code 137\b"
)
_MEMORY = re.compile(
    r"fatal error C1060|fatal error C1002|fatal error LNK1102|LNK1102"
    r"|catastrophic error\s*: out of memory|virtual memory exhausted"
    r"|cc1plus: out of memory|LLVM ERROR: out of memory"
)
_FULL = re.compile(r"No space left on device|ENOSPC|not enough space on the disk|Disk quota exc")
_BY_SIGNAL = "137"  # 128 + 9, as a shell tells it


def is_full(lines: Iterable[str]) -> bool:
    """Whether the disk was full, which is mostly followed by other errors."""
    return any(_FULL.search(line) for line in lines)


def says_memory(lines: Iterable[str]) -> bool:
    """Whether a compiler says so itself; one that was killed could not say why."""
    return any(_MEMORY.search(line) for line in lines)


def failed_output(line: str) -> str:
    """The output that Ninja says could not be made, the first where it names several; else ""."""
    found = _FAILED.match(line)
    return found["output"] if found else ""


def killed(lines: Iterable[str]) -> tuple[str, ...]:
    """The outputs whose compilers ran out of memory, "?" where Ninja named none; () for none."""
    found: dict[str, None] = {}
    output = "?"
    for line in lines:
        if failed := _FAILED.match(line):
            output = failed["output"]
            if failed["code"] == _BY_SIGNAL:
                found[output] = None
        elif _ENDED.search(line) or _MEMORY.search(line):
            found[output] = None
    return tuple(found)
