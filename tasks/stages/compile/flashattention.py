"""How deep Ninja's pool of flash-attention's kernels is, in trees that have one.

The depth is written into build.ninja when CMake runs, so it comes of what stays the same from run
to run: not of the memory that is free now, which would make CMake run again each time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePath

from tasks.stages.compile.fingerprint import same
from tasks.system.hardware import capacity

MAX_JOBS = "FLASH_ATTENTION_MAX_JOBS"
# PyTorch's list of variables that CMake takes from the environment; in a comment it is only told
_FORWARDED = re.compile(rf"^[^#\n]*\b{MAX_JOBS}\b", re.MULTILINE)


def pool(
    tree: PurePath, variables: Mapping[str, str], jobs: int | None, *, elastic: bool
) -> dict[str, str]:
    """The variable that a build of `tree` gets beside its own `variables`; none where the tree
    knows no such pool, nothing is built for CUDA, or a person chose.

    `jobs` is a number of compilers that is asked for. Where a pool of ours is `elastic`, memory
    governs that, and this one is not to be the limit.
    """
    if MAX_JOBS in variables or not same(variables.get("USE_CUDA", ""), "1") or not forwarded(tree):
        return {}
    if elastic:
        return {MAX_JOBS: str(jobs or capacity.processors())}
    return {MAX_JOBS: str(capacity.kernel_jobs(jobs or capacity.processors()))}


def forwarded(tree: PurePath) -> frozenset[str]:
    """The variable, where the tree takes it: even so CMake may say that nothing used it."""
    path = Path(tree) / "cmake" / "EnvVarForwarding.cmake"
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    return frozenset({MAX_JOBS} if _FORWARDED.search(text) else ())
