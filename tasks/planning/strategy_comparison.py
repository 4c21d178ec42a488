"""Compare the strategies: whether each is possible on this host, why, and what it costs."""

from dataclasses import dataclass, replace

from tasks.core.errors import SettingsError
from tasks.core.model import Arch, Host, Strategy
from tasks.knowledge import Knowledge
from tasks.knowledge.costs import Cost, estimate_cost
from tasks.planning import resolve
from tasks.planning.target_resolution import find_targets
from tasks.settings.schema import Settings


def estimate_strategy_cost(
    settings: Settings, knowledge: Knowledge, strategy: Strategy, targets: tuple[Arch, ...]
) -> Cost:
    """Estimate the cost of a strategy on one core. The time is unknown if build.target is set."""
    if resolve.is_partial_build(settings, strategy):
        cost = estimate_cost(knowledge, strategy, len(targets), 0)
        evidence = f"unverified: build.target is a part of what is known: {cost.known}"
        return replace(cost, seconds=None, core_seconds=(0, 0), known=evidence)
    return estimate_cost(knowledge, strategy, len(targets), len(settings.extensions))


@dataclass(frozen=True)
class StrategyOption:
    """A strategy on this host. `why` is the reason why it is chosen, possible or impossible.

    `cost` is for one core; `cost.scale_to_cores` converts it.
    """

    strategy: Strategy
    possible: bool
    chosen: bool
    why: str
    cost: Cost


def compare_strategies(
    settings: Settings, host: Host, knowledge: Knowledge
) -> tuple[StrategyOption, ...]:
    """Return the options prebuilt, source and existing, in this order. At most one is chosen."""
    targets, _ = find_targets(settings, host, knowledge)
    try:
        chosen = resolve.resolve_without_suggestions(settings, host, knowledge)
    except SettingsError:
        chosen = None
    options = []
    for strategy in ("prebuilt", "source", "existing"):
        is_chosen = chosen is not None and chosen.strategy == strategy
        resolution = chosen if is_chosen else None
        reason = resolve.find_source_reason(settings) if strategy == "prebuilt" else ""
        if not resolution and not reason:
            why = "it can be built"
            try:
                resolution = resolve.resolve_strategy(strategy, settings, host, knowledge, why)
            except SettingsError as error:
                reason = error.message
        reason = resolution.strategy_why if resolution else reason
        option_targets = resolution.targets if resolution else targets
        cost = estimate_strategy_cost(settings, knowledge, strategy, option_targets)
        options.append(StrategyOption(strategy, bool(resolution), is_chosen, reason, cost))
    return tuple(options)
