"""What Ninja made, read from its own log: https://ninja-build.org/manual.html#ref_log."""

from __future__ import annotations

from pathlib import Path, PurePath

Made = dict[str, str]


def made(build: PurePath) -> Made:
    """Output → the line that tells when it was made last; empty where nothing was."""
    log = Path(build) / ".ninja_log"
    if not log.exists():
        return {}
    lines = log.read_text(encoding="utf-8").splitlines()[1:]
    return {line.split("\t")[3]: line for line in lines}


def remade(before: Made, after: Made) -> set[str]:
    """The outputs that were made in between."""
    return {output for output, line in after.items() if before.get(output) != line}


def products(before: Made, after: Made) -> set[str]:
    """Names of the objects and libraries among them: not of what describes the version, which both
    PyTorch and others make each time.
    """
    return {Path(name).name for name in remade(before, after) if name.endswith((".o", ".so", ".a"))}
