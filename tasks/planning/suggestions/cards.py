"""Several profiles, or fewer cards."""

from __future__ import annotations

from collections.abc import Iterator

from tasks.core.resolution import Choice
from tasks.planning.suggestions.trial import Remedy, Trial


def profiles(trial: Trial) -> Iterator[Remedy]:
    """A profile for each target, where each alone can be."""
    apart = _apart(trial)
    if len(apart) > 1 and all(apart.values()):
        named = " and ".join(apart)
        first = next(choice for choice in apart.values() if choice)
        yield Remedy(f"build for {named} in {len(apart)} profiles", first)


def fewer(trial: Trial) -> Iterator[Remedy]:
    """Without those that stand in the way; last, the newest card alone."""
    apart = _apart(trial)
    working = {name: choice for name, choice in apart.items() if choice}
    newest = max(working, key=lambda name: working[name].targets, default="")
    for kept in (tuple(working), (newest,)):
        if not working or len(kept) == len(apart):
            continue
        if choice := trial.of(target={"gpus": kept}):
            left = ", ".join(name for name in apart if name not in kept)
            named = ", ".join(f'"{name}"' for name in kept)
            yield Remedy(f"write target.gpus: [{named}], which leaves out {left}", choice)


def _apart(trial: Trial) -> dict[str, Choice | None]:
    """Each target alone: its choice, None where there is none."""
    asked = trial.settings.target.gpus
    gpus = asked if asked != "auto" else tuple({gpu.capability for gpu in trial.host.gpus})
    return {name: trial.of(target={"gpus": (name,)}) for name in sorted(gpus)}
