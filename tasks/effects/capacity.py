"""How many compilers this machine can stand at once."""

from __future__ import annotations

import os

from tasks.effects import memory

_GIB_A_COMPILER = 4  # nvcc on a file with torch's headers; pytorch-build.md has 4.5–5.3 at worst


def cores() -> int:
    """Processors that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def safe_jobs() -> int:
    """Compilers at once by cores and the memory that is available, at least one: a fixed number,
    where nobody can look after memory while they run.
    """
    available = memory.measure(memory.groups()).available_mib
    return max(1, min(cores(), available // (_GIB_A_COMPILER * 1024)))
