"""The three ways to a torch side by side: which are open here, why, and what each takes. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tasks.core.errors import SettingsError
from tasks.core.model import Host, Strategy
from tasks.core.resolution import Choice
from tasks.knowledge import Knowledge
from tasks.knowledge.costs import Cost
from tasks.planning.decide import attempt, by
from tasks.planning.takes import takes
from tasks.planning.targets import find_targets
from tasks.planning.torch import wants_source
from tasks.settings.schema import Settings


@dataclass(frozen=True)
class Way:
    """One strategy on this host. `why` is the reason that speaks for it where it is `possible`, and
    the refusal where it is not. `cost` is on one core: `cost.on(cores)` for a machine's.
    """

    strategy: Strategy
    possible: bool
    chosen: bool
    why: str
    cost: Cost
    choice: Choice | None = None


def ways(settings: Settings, host: Host, knowledge: Knowledge) -> tuple[Way, ...]:
    """Prebuilt, source and existing, in this order; at most one is chosen. Raises `SettingsError`
    for targets that mean nothing.
    """
    targets, _ = find_targets(settings, host, knowledge)
    try:
        chosen = attempt(settings, host, knowledge)
    except SettingsError:
        chosen = None
    order: tuple[Strategy, ...] = ("prebuilt", "source", "existing")
    found = []
    for name in order:
        choice, why = _tried(name, chosen, settings, host, knowledge)
        cost = takes(settings, knowledge, name, choice.targets if choice else targets)
        picked = chosen is not None and chosen.strategy == name
        found.append(Way(name, choice is not None, picked, why, cost, choice))
    return tuple(found)


def _tried(
    strategy: Strategy,
    chosen: Choice | None,
    settings: Settings,
    host: Host,
    knowledge: Knowledge,
) -> tuple[Choice | None, str]:
    if chosen and chosen.strategy == strategy:
        return chosen, chosen.strategy_why
    if strategy == "prebuilt" and (reason := wants_source(settings)):
        return None, reason
    try:
        choice = by(strategy, settings, host, knowledge, "it can be built")
    except SettingsError as error:
        return None, error.what
    return choice, choice.strategy_why
