"""What Ninja made, read from its own log: https://ninja-build.org/manual.html#ref_log."""

from __future__ import annotations

from pathlib import Path

from tasks.runlog import build_history_io

Made = dict[str, build_history_io.NinjaLogEntry]
made = build_history_io.read_ninja_log


def remade(before: Made, after: Made) -> set[str]:
    """The outputs that were made in between."""
    return set(build_history_io.find_new_entries(before, after))


def products(before: Made, after: Made) -> set[str]:
    """Names of the objects and libraries among them: not of what describes the version, which both
    PyTorch and others make each time.
    """
    return {Path(name).name for name in remade(before, after) if name.endswith((".o", ".so", ".a"))}
