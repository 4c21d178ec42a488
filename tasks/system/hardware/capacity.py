"""How many compilers this machine can stand at once."""

from __future__ import annotations

import os

from tasks.knowledge.thresholds import CUDA_COMPILER, KERNEL
from tasks.system.hardware import memory


def cores() -> int:
    """Processors that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def safe_jobs(compiler_mib: int = 0, most: int = 0) -> int:
    """Compilers at once by cores and the memory that is available, at least one: a fixed number,
    where nobody can look after memory while they run. `compiler_mib` is what each takes, where that
    is known to be more than usual; `most` replaces the number of cores.
    """
    available = memory.measure(memory.groups()).available_mib
    return max(1, min(most or cores(), available // max(CUDA_COMPILER, compiler_mib)))


def processors() -> int:
    """Those of the machine, of which this process may be given fewer today."""
    return os.cpu_count() or 1


def kernel_jobs(most: int) -> int:
    """How many of flash-attention's kernels `most` compilers may make at once, at least one: by the
    limit of memory, since the value is kept and what is available changes.
    """
    limit = memory.limit_mib(memory.groups())
    return max(1, min(most, limit // KERNEL))
