"""What a report is about: an opened profile, or the problem that kept it from opening."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.core.errors import BuildError, SettingsError
from tasks.core.model import Host, Layout, Plan, build_of
from tasks.core.resolution import Choice
from tasks.knowledge import Knowledge
from tasks.lock.anchored import Anchored
from tasks.settings.load import Loaded, load
from tasks.stages.source.release import by_own_tree

if TYPE_CHECKING:
    from tasks.knowledge.costs import Cost


@dataclass(frozen=True)
class Profile:
    """A profile that opened: what was asked, what is here, what is known, and what comes of it.
    `held` is the plan with what torchyard.lock and a bundle say.
    """

    loaded: Loaded
    layout: Layout
    host: Host
    knowledge: Knowledge
    choice: Choice
    plan: Plan
    held: Anchored | None = None

    @property
    def cost(self) -> Cost:
        """What it takes on one core, as far as the facts tell."""
        from tasks.planning.takes import takes  # noqa: PLC0415 - of no use to list tasks

        choice = self.choice
        return takes(self.loaded.settings, self.knowledge, choice.strategy, choice.targets)


@dataclass(frozen=True)
class Subject:
    """A profile by name; `opened` is None where `problem` says why."""

    root: Path
    name: str
    opened: Profile | None
    problem: BuildError | None = None

    @property
    def build(self) -> Path:
        """Its build folder, also where the profile cannot be opened."""
        return Path(build_of(self.root, self.name))

    def of_build(self) -> Profile:
        """The profile. Raises the problem of one that does not open."""
        if self.opened is None:
            raise self.problem or BuildError("this profile cannot be opened", where=self.name)
        return self.opened

    def asked(self) -> Loaded:
        """The settings, also of a profile that cannot be planned. Raises `BuildError` where they
        are not well-formed.
        """
        if self.opened:
            return self.opened.loaded
        loaded = load(self.root / "config", self.name, os.environ)
        try:
            return by_own_tree(loaded, self.root)
        except SettingsError:
            return loaded
