"""What a way to a torch takes with these settings. Pure."""

from __future__ import annotations

from dataclasses import replace

from tasks.core.model import Arch, Strategy
from tasks.knowledge import Knowledge
from tasks.knowledge.costs import Cost, estimate_cost
from tasks.planning.torch import is_partial_build
from tasks.settings.schema import Settings


def estimate_strategy_cost(
    settings: Settings, knowledge: Knowledge, strategy: Strategy, targets: tuple[Arch, ...]
) -> Cost:
    """On one core; how much of it one CMake target takes is not known."""
    if is_partial_build(settings, strategy):
        part = estimate_cost(knowledge, strategy, len(targets), 0)
        known = f"unverified: build.target is a part of what is known: {part.known}"
        return replace(part, seconds=None, core_seconds=(0, 0), known=known)
    return estimate_cost(knowledge, strategy, len(targets), len(settings.extensions))
