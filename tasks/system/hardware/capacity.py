"""How many compilers this machine can stand at once."""

from __future__ import annotations

import os

from tasks.knowledge.thresholds import CUDA_COMPILER_MIB, KERNEL_COMPILER_MIB
from tasks.system.hardware import memory


def count_usable_cores() -> int:
    """Processors that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def compute_safe_jobs(compiler_mib: int = 0, most: int = 0) -> int:
    """Compilers at once by cores and the memory that is available, at least one: a fixed number,
    where nobody can look after memory while they run. `compiler_mib` is what each takes, where that
    is known to be more than usual; `most` replaces the number of cores.
    """
    available = memory.measure_memory(memory.find_control_groups()).available_mib
    return max(
        1, min(most or count_usable_cores(), available // max(CUDA_COMPILER_MIB, compiler_mib))
    )


def count_processors() -> int:
    """Those of the machine, of which this process may be given fewer today."""
    return os.cpu_count() or 1


def compute_kernel_jobs(most: int) -> int:
    """How many of flash-attention's kernels `most` compilers may make at once, at least one: by the
    limit of memory, since the value is kept and what is available changes.
    """
    limit = memory.find_memory_limit(memory.find_control_groups())
    return max(1, min(most, limit // KERNEL_COMPILER_MIB))
