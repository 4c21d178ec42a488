"""Commands of a build at work as the governor sees them, and what it says. Pure: sizes in MiB,
times in seconds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

# `remote` is C or C++ that another machine compiles: what is here preprocesses and waits
JobKind = Literal["c++", "cuda", "other", "remote"]

_OUTPUT_OPTION = re.compile(r"""(?:^|\s)(?:-o|/Fo:?)\s*(?:"([^"]+)"|'([^']+)'|([^\s"']+))""")
_CUDA_SOURCE = re.compile(r"""\.cu(?=["'\s]|$)""")
_CPP_SOURCE = re.compile(r"""\.(?:c|cc|cpp|cxx|C|mm|hip|S)(?=["'\s]|$)""")


@dataclass(frozen=True)
class Job:
    """One command of Ninja at work with all that it started.

    `peak_mib` is the most that was seen of it, `expected_mib` what it came to in the last build, 0
    where it is not known. `waits` is how long it has been paused, 0 where it runs.
    """

    pid: int
    output: str
    kind: JobKind
    resident_mib: int
    peak_mib: int
    expected_mib: int = 0
    age: float = 0.0
    waits: float = 0.0


@dataclass(frozen=True)
class BuildSnapshot:
    """One moment. `limit_mib` and `available_mib` are those of the tightest limit, `idle` jobs that
    may start without being asked about, `most` the jobs there may ever be, `shown` the peaks of
    finished jobs by kind, the smallest first, `since_grant` the time since one job more was last
    allowed. `local` of the most may work on this machine at once, 0 for all of them.
    """

    limit_mib: int
    available_mib: int
    running: tuple[Job, ...]
    idle: int
    most: int
    shown: Mapping[JobKind, Sequence[int]] = field(default_factory=dict)
    since_grant: float = 0.0
    local: int = 0


@dataclass(frozen=True)
class GovernorDecision:
    """So many jobs at once, those to be paused among them."""

    jobs: int
    paused: frozenset[int] = frozenset()


def find_output_path(command: str) -> str:
    """What a command line says it makes, as Ninja writes it; "" where it does not say."""
    found = _OUTPUT_OPTION.search(command)
    return next(filter(None, found.groups()), "") if found else ""


def classify_command(command: str) -> JobKind:
    """By the suffix of the source in a command line."""
    if _CUDA_SOURCE.search(command):
        return "cuda"
    return "c++" if _CPP_SOURCE.search(command) else "other"


def classify_output(output: str) -> JobKind:
    """By the name of an object that CMake called after its source; other objects are C++."""
    source, suffix = output.rpartition(".")[::2]
    return (
        classify_command(f"{source}.cpp" if "." not in source else source)
        if suffix in ("o", "obj")
        else "other"
    )
