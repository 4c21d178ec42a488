"""One trial: the choice with other settings, or on a host that has more, judged by the facts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tasks.core.errors import TorchyardError
from tasks.core.model import Host, InstalledToolkit
from tasks.core.resolution import Resolution
from tasks.knowledge import Knowledge
from tasks.knowledge.cuda_toolkits import list_published_toolkits
from tasks.knowledge.known_problems import find_known_bad
from tasks.knowledge.minimum_versions import find_too_old_versions
from tasks.knowledge.torch_releases import find_release
from tasks.settings.schema import Settings

ResolveFunction = Callable[[Settings, Host, Knowledge], Resolution]


@dataclass(frozen=True)
class Suggestion:
    """A change that was tried: `todo` in words, and the choice that it leads to."""

    hint: str
    resolution: Resolution


@dataclass(frozen=True)
class WhatIf:
    """What was asked for and where, and how a choice is made of it."""

    settings: Settings
    host: Host
    knowledge: Knowledge
    attempt: ResolveFunction

    def resolve_with(
        self, host: Host | None = None, **sections: dict[str, Any]
    ) -> Resolution | None:
        """The choice with these keys changed, or on that host; None where it cannot be, is known to
        be bad, or is a build that nobody is known to have made.
        """
        changed = {
            name: getattr(self.settings, name).model_copy(update=keys)
            for name, keys in sections.items()
        }
        asked = self.settings.model_copy(update=changed)
        there = host or self.host
        try:
            choice = self.attempt(asked, there, self.knowledge)
        except TorchyardError:
            return None
        bad = is_known_bad(self.knowledge, choice, there)
        return choice if self._is_known_build(choice) and not bad else None

    def add_all_toolkits(self) -> WhatIf:
        """The same on a host that has every known toolkit."""
        every = tuple(InstalledToolkit("", f"{cuda}.0") for cuda in self.knowledge.toolkits)
        return replace(self, host=replace(self.host, toolkits=every))

    def _is_known_build(self, choice: Resolution) -> bool:
        """Whether a build is one with a toolkit that the release is published with, or with the one
        that was asked for.
        """
        if choice.strategy != "source" or choice.cuda in {None, self.settings.toolkit.version}:
            return True
        try:
            found = find_release(self.knowledge, choice.torch)
        except TorchyardError:
            return False
        return choice.cuda in list_published_toolkits(
            self.knowledge, found, choice.targets, choice.system
        )


def is_known_bad(knowledge: Knowledge, choice: Resolution, host: Host) -> bool:
    """Whether what would be built is known not to work. A toolkit counts by its release: the one
    that will be installed is not here yet.
    """
    combination = replace(choice.build_combination(host), cuda=choice.toolkit.version or None)
    found = (
        *find_known_bad(knowledge, combination),
        *find_too_old_versions(knowledge, combination),
    )
    return any(finding.level == "error" for finding in found)
