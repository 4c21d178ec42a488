"""Merge conflicts in the checkouts that source.path and the extensions' `path` name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tasks.core.check_ids import CheckId
from tasks.core.errors import CommandFailedError, MissingToolError
from tasks.doctor.host_facts import ProbeRequest, UnmergedCheckout
from tasks.system import git


def read_conflict_facts(asked: ProbeRequest, wanted: frozenset[CheckId]) -> dict[str, Any]:
    """Return `unmerged`; {} if git cannot be run."""
    if "conflicts" not in wanted or not asked.build:
        return {}
    try:
        return {"unmerged": tuple(_find_unmerged_checkouts(asked))}
    except (CommandFailedError, MissingToolError, OSError):
        return {}


def _find_unmerged_checkouts(asked: ProbeRequest) -> Iterator[UnmergedCheckout]:
    for setting, folder in asked.checkouts:
        if found := git.find_conflicts(folder):
            yield UnmergedCheckout(setting, f"in {folder} {found}", found.hint)
