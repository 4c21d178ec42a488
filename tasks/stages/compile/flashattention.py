"""How deep Ninja's pool of flash-attention's kernels is, in trees that have one.

The depth is written into build.ninja when CMake runs, so it comes of what stays the same from run
to run: not of the memory that is free now, which would make CMake run again each time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePath

from tasks.stages.compile.fingerprint import is_same_value
from tasks.system.hardware import capacity

KERNEL_JOBS_VARIABLE = "FLASH_ATTENTION_MAX_JOBS"
# PyTorch's list of variables that CMake takes from the environment; in a comment it is only told
_FORWARDED_LINE = re.compile(rf"^[^#\n]*\b{KERNEL_JOBS_VARIABLE}\b", re.MULTILINE)


def build_kernel_variables(
    tree: PurePath, variables: Mapping[str, str], jobs: int | None, *, elastic: bool
) -> dict[str, str]:
    """The variable that a build of `tree` gets beside its own `variables`; none where the tree
    knows no such pool, nothing is built for CUDA, or a person chose.

    `jobs` is a number of compilers that is asked for. Where a pool of ours is `elastic`, memory
    governs that, and this one is not to be the limit.
    """
    if (
        KERNEL_JOBS_VARIABLE in variables
        or not is_same_value(variables.get("USE_CUDA", ""), "1")
        or not find_forwarded_variables(tree)
    ):
        return {}
    if elastic:
        return {KERNEL_JOBS_VARIABLE: str(jobs or capacity.count_processors())}
    return {
        KERNEL_JOBS_VARIABLE: str(capacity.compute_kernel_jobs(jobs or capacity.count_processors()))
    }


def find_forwarded_variables(tree: PurePath) -> frozenset[str]:
    """The variable, where the tree takes it: even so CMake may say that nothing used it."""
    path = Path(tree) / "cmake" / "EnvVarForwarding.cmake"
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    return frozenset({KERNEL_JOBS_VARIABLE} if _FORWARDED_LINE.search(text) else ())
