"""Several profiles, or fewer cards."""

from __future__ import annotations

from collections.abc import Iterator

from tasks.core.resolution import Resolution
from tasks.planning.suggestions.trial import Suggestion, WhatIf


def suggest_profiles(trial: WhatIf) -> Iterator[Suggestion]:
    """A profile for each target, where each alone can be."""
    apart = _resolve_each_target(trial)
    if len(apart) > 1 and all(apart.values()):
        named = " and ".join(apart)
        first = next(choice for choice in apart.values() if choice)
        yield Suggestion(f"build for {named} in {len(apart)} profiles", first)


def suggest_fewer_targets(trial: WhatIf) -> Iterator[Suggestion]:
    """Without those that stand in the way; last, the newest card alone."""
    apart = _resolve_each_target(trial)
    working = {name: choice for name, choice in apart.items() if choice}
    newest = max(working, key=lambda name: working[name].targets, default="")
    for kept in (tuple(working), (newest,)):
        if not working or len(kept) == len(apart):
            continue
        if choice := trial.resolve_with(target={"gpus": kept}):
            left = ", ".join(name for name in apart if name not in kept)
            named = ", ".join(f'"{name}"' for name in kept)
            yield Suggestion(f"write target.gpus: [{named}], which leaves out {left}", choice)


def _resolve_each_target(trial: WhatIf) -> dict[str, Resolution | None]:
    """Each target alone: its choice, None where there is none."""
    asked = trial.settings.target.gpus
    gpus = asked if asked != "auto" else tuple({gpu.capability for gpu in trial.host.gpus})
    return {name: trial.resolve_with(target={"gpus": (name,)}) for name in sorted(gpus)}
