"""Find the line of an extension's own source that names an arch the toolkit does not support."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tasks.core.model import Stage
    from tasks.diagnosis.decide import Diagnosis

_ARCH = re.compile(r"\b(?:compute|sm)_(\d{2,3})")
_ARCH_SETTING = re.compile(r"arch|gencode|compute_|sm_\d", re.IGNORECASE)
_LINES_ABOVE = 3  # lines before a number that may show that it is an arch
_BUILD_FILES = ("setup.py", "CMakeLists.txt", "*.py", "*.cmake")


def suggest_arch_removal(stage: Stage | None, found: Diagnosis, settings_file: str) -> str:
    """Return where the source of an extension names an unsupported arch that is not a target, and
    how to remove it; "" for an arch that is a target, and for any other failure.
    """
    arch = _find_unsupported_arch(found)
    if stage is None or stage.kind != "extensions" or not arch:
        return ""
    job = stage.job
    if arch in {target.sm.removeprefix("sm_").rstrip("af") for target in job.targets}:
        return ""
    what = f"sm_{arch} is not a target of this profile ({', '.join(map(str, job.targets))})"
    entry = f"{job.name} among extensions of {settings_file}"
    given = {**{f"env.{name}": value for name, value in job.env.items()}, "nvcc": f"{job.nvcc}"}
    if key := next(
        (key for key, text in given.items() if _compile_arch_pattern(arch).search(text)), ""
    ):
        return f"{what}: take it out of {key} of {entry}"
    remove = f"remove it with a patch: patches: [FILE.patch] with {entry}"
    place = _find_arch_line(Path(job.tree), job.subdirectory, arch)
    if place is None:
        return f"{what}, so the source of {job.name} names it in {job.original}: {remove}"
    file, number = place
    original = Path(job.original) / file.relative_to(job.tree)
    return f"{what}. {original if original.is_file() else file}:{number} names it: {remove}"


def _find_unsupported_arch(found: Diagnosis) -> str:
    """Return the digits of the arch, "37" of compute_37."""
    if not found.failure or found.failure.slug != "nvcc-arch-unsupported" or not found.first_error:
        return ""
    named = _ARCH.search(found.first_error.text)
    return named[1] if named else ""


def _compile_arch_pattern(arch: str) -> re.Pattern[str]:
    """Match 37, 3.7, compute_37 and sm_37."""
    return re.compile(rf"(?<![\d.]){arch[:-1]}\.?{arch[-1]}(?![\d.])")


def _find_arch_line(tree: Path, subdirectory: str, arch: str) -> tuple[Path, int] | None:
    """Return the file and line; search the folder that is built first, then those above it."""
    built = tree / subdirectory
    folders = [built, *(one for one in built.parents if one.is_relative_to(tree))]
    files = (
        file for folder in folders for name in _BUILD_FILES for file in sorted(folder.glob(name))
    )
    lines = (
        (file, line) for file in files if file.is_file() for line in _list_arch_lines(file, arch)
    )
    return next(lines, None)


def _list_arch_lines(file: Path, arch: str) -> Iterator[int]:
    """Yield the numbers of the lines that name the arch. A number counts only near a word such as
    `gencode`, since Python versions look the same.
    """
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    for at, line in enumerate(lines):
        code = line.partition("#")[0]
        if not _compile_arch_pattern(arch).search(code) or "python" in code.lower():
            continue
        if _ARCH_SETTING.search("\n".join(lines[max(0, at - _LINES_ABOVE) : at + 1])):
            yield at + 1
