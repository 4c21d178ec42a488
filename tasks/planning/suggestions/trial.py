"""One trial: the choice with other settings, or on a host that has more, judged by the facts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tasks.core.errors import BuildError
from tasks.core.model import Host, ToolkitFound
from tasks.core.resolution import Choice
from tasks.knowledge import Knowledge
from tasks.knowledge.combinations import judge
from tasks.knowledge.minimums import below
from tasks.knowledge.releases import release
from tasks.knowledge.toolkits import known_to_build
from tasks.settings.schema import Settings

Attempt = Callable[[Settings, Host, Knowledge], Choice]


@dataclass(frozen=True)
class Remedy:
    """A change that was tried: `todo` in words, and the choice that it leads to."""

    todo: str
    choice: Choice


@dataclass(frozen=True)
class Trial:
    """What was asked for and where, and how a choice is made of it."""

    settings: Settings
    host: Host
    knowledge: Knowledge
    attempt: Attempt

    def of(self, host: Host | None = None, **sections: dict[str, Any]) -> Choice | None:
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
        except BuildError:
            return None
        bad = known_bad(self.knowledge, choice, there)
        return choice if self._known(choice) and not bad else None

    def with_every_toolkit(self) -> Trial:
        """The same on a host that has every known toolkit."""
        every = tuple(ToolkitFound("", f"{cuda}.0") for cuda in self.knowledge.toolkits)
        return replace(self, host=replace(self.host, toolkits=every))

    def _known(self, choice: Choice) -> bool:
        """Whether a build is one with a toolkit that the release is published with, or with the one
        that was asked for.
        """
        if choice.strategy != "source" or choice.cuda in {None, self.settings.toolkit.version}:
            return True
        try:
            found = release(self.knowledge, choice.torch)
        except BuildError:
            return False
        return choice.cuda in known_to_build(self.knowledge, found, choice.targets, choice.system)


def known_bad(knowledge: Knowledge, choice: Choice, host: Host) -> bool:
    """Whether what would be built is known not to work. A toolkit counts by its release: the one
    that will be installed is not here yet.
    """
    combination = replace(choice.combination(host), cuda=choice.toolkit.version or None)
    found = (*judge(knowledge, combination), *below(knowledge, combination))
    return any(finding.level == "error" for finding in found)
