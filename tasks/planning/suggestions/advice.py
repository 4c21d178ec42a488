"""Every remedy, and the sentence that names them."""

from __future__ import annotations

from tasks.core.model import Host
from tasks.knowledge import Knowledge
from tasks.planning.suggestions.cards import fewer, profiles
from tasks.planning.suggestions.pythons import pythons, pythons_and_toolkits
from tasks.planning.suggestions.together import together
from tasks.planning.suggestions.toolkits import installed, other_own, own_toolkits, toolkits
from tasks.planning.suggestions.torches import (
    other_wheels,
    own_build,
    strategies,
    torches,
    torches_and_toolkits,
)
from tasks.planning.suggestions.trial import Attempt, Remedy, Trial
from tasks.settings.schema import Settings

_ONE_CHANGE = (pythons, own_toolkits, toolkits, torches, strategies, profiles)
_TWO_CHANGES = (pythons_and_toolkits, torches_and_toolkits)
_MORE_CHANGES = (together,)
_ACCEPT = "if what is missing was installed since: doit doctor --accept"


def advice(settings: Settings, host: Host, knowledge: Knowledge, attempt: Attempt) -> str:
    """One sentence with every remedy, empty where nothing is known to help."""
    told = [remedy.todo for remedy in remedies(settings, host, knowledge, attempt)]
    if host.pinned and _could_be_here(Trial(settings, host, knowledge, attempt)):
        told.append(_ACCEPT)
    return "; or ".join(told)


def remedies(
    settings: Settings, host: Host, knowledge: Knowledge, attempt: Attempt
) -> tuple[Remedy, ...]:
    """At most one of a kind: another Python, a toolkit of one's own, any toolkit, torch, strategy,
    several profiles, or fewer targets. Two changes at once only if no single one helps, and
    torch, CUDA and Python together only if no two do.
    """
    trial = Trial(settings, host, knowledge, attempt)
    found = [next(kind(trial), None) for kind in _ONE_CHANGE]
    last = found if any(found) else [next(kind(trial), None) for kind in _TWO_CHANGES]
    if not any(last):
        last = [next(kind(trial), None) for kind in _MORE_CHANGES]
    if settings.target.gpus == "auto" or not any(last):
        last = [*last, next(fewer(trial), None)]
    return tuple(remedy for remedy in last if remedy)


def instead_of_wheel(settings: Settings, host: Host, knowledge: Knowledge, attempt: Attempt) -> str:
    """Suggest another wheel and a source build in place of a wheel that lacks code for a target; ""
    if planning accepts neither.
    """
    trial = Trial(settings, host, knowledge, attempt)
    found = [next(kind(trial), None) for kind in (other_wheels, own_build)]
    return "; or ".join(remedy.todo for remedy in found if remedy)


def _could_be_here(trial: Trial) -> bool:
    """Whether something that helps could have been installed after this machine was looked at: what
    a setting names anew is looked for again, what was pinned is not.
    """
    if trial.settings.python == "auto" and next(pythons(trial), None):
        return True
    return any(next(kind(trial), None) for kind in (installed, other_own))
