"""What Ninja made, read from its own log: https://ninja-build.org/manual.html#ref_log."""

from __future__ import annotations

from pathlib import Path

from tasks.runlog import ninjalog

Made = dict[str, ninjalog.NinjaLogEntry]
made = ninjalog.read_ninja_log


def remade(before: Made, after: Made) -> set[str]:
    """The outputs that were made in between."""
    return set(ninjalog.find_new_entries(before, after))


def products(before: Made, after: Made) -> set[str]:
    """Names of the objects and libraries among them: not of what describes the version, which both
    PyTorch and others make each time.
    """
    return {Path(name).name for name in remade(before, after) if name.endswith((".o", ".so", ".a"))}
