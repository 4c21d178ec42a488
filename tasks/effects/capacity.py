"""How many compilers this machine can stand at once."""

from __future__ import annotations

import os

import psutil

_GIB_A_COMPILER = 4  # nvcc on a file with torch's headers; pytorch-build.md has 4.5–5.3 at worst


def safe_jobs() -> int:
    """Compilers at once by cores and free memory, at least one."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    return max(1, min(cores, psutil.virtual_memory().available // (_GIB_A_COMPILER * 2**30)))
