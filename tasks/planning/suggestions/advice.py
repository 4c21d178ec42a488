"""Every remedy, and the sentence that names them."""

from __future__ import annotations

from tasks.core.model import Host
from tasks.knowledge import Knowledge
from tasks.planning.suggestions.cards import suggest_fewer_targets, suggest_profiles
from tasks.planning.suggestions.pythons import suggest_pythons, suggest_pythons_and_toolkits
from tasks.planning.suggestions.together import suggest_combined_changes
from tasks.planning.suggestions.toolkits import (
    suggest_other_path_toolkits,
    suggest_path_toolkits,
    suggest_toolkit_install,
    suggest_toolkits,
)
from tasks.planning.suggestions.torches import (
    suggest_other_wheels,
    suggest_releases,
    suggest_releases_and_toolkits,
    suggest_source_build,
    suggest_source_strategy,
)
from tasks.planning.suggestions.trial import ResolveFunction, Suggestion, WhatIf
from tasks.settings.schema import Settings

_ONE_CHANGE = (
    suggest_pythons,
    suggest_path_toolkits,
    suggest_toolkits,
    suggest_releases,
    suggest_source_strategy,
    suggest_profiles,
)
_TWO_CHANGES = (suggest_pythons_and_toolkits, suggest_releases_and_toolkits)
_MORE_CHANGES = (suggest_combined_changes,)
_ACCEPT_HINT = "if what is missing was installed since: doit doctor --accept"


def format_suggestions(
    settings: Settings, host: Host, knowledge: Knowledge, attempt: ResolveFunction
) -> str:
    """One sentence with every remedy, empty where nothing is known to help."""
    told = [remedy.hint for remedy in list_suggestions(settings, host, knowledge, attempt)]
    if host.pinned and _can_new_install_help(WhatIf(settings, host, knowledge, attempt)):
        told.append(_ACCEPT_HINT)
    return "; or ".join(told)


def list_suggestions(
    settings: Settings, host: Host, knowledge: Knowledge, attempt: ResolveFunction
) -> tuple[Suggestion, ...]:
    """At most one of a kind: another Python, a toolkit of one's own, any toolkit, torch, strategy,
    several profiles, or fewer targets. Two changes at once only if no single one helps, and
    torch, CUDA and Python together only if no two do.
    """
    trial = WhatIf(settings, host, knowledge, attempt)
    found = [next(kind(trial), None) for kind in _ONE_CHANGE]
    last = found if any(found) else [next(kind(trial), None) for kind in _TWO_CHANGES]
    if not any(last):
        last = [next(kind(trial), None) for kind in _MORE_CHANGES]
    if settings.target.gpus == "auto" or not any(last):
        last = [*last, next(suggest_fewer_targets(trial), None)]
    return tuple(remedy for remedy in last if remedy)


def format_wheel_alternatives(
    settings: Settings, host: Host, knowledge: Knowledge, attempt: ResolveFunction
) -> str:
    """Suggest another wheel and a source build in place of a wheel that lacks code for a target; ""
    if planning accepts neither.
    """
    trial = WhatIf(settings, host, knowledge, attempt)
    found = [next(kind(trial), None) for kind in (suggest_other_wheels, suggest_source_build)]
    return "; or ".join(remedy.hint for remedy in found if remedy)


def _can_new_install_help(trial: WhatIf) -> bool:
    """Whether something that helps could have been installed after this machine was looked at: what
    a setting names anew is looked for again, what was pinned is not.
    """
    if trial.settings.python == "auto" and next(suggest_pythons(trial), None):
        return True
    return any(
        next(kind(trial), None) for kind in (suggest_toolkit_install, suggest_other_path_toolkits)
    )
