"""What a report is about: an opened profile, or the problem that kept it from opening."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.core.errors import SettingsError, TorchyardError
from tasks.core.model import Host, Layout, Plan, compute_build_folder
from tasks.core.resolution import Resolution
from tasks.knowledge import Knowledge
from tasks.lock.anchored import PinnedPlan
from tasks.settings.load import LoadedSettings, load_settings
from tasks.stages.source.release import apply_tree_version

if TYPE_CHECKING:
    from tasks.knowledge.costs import Cost


@dataclass(frozen=True)
class Profile:
    """A profile that opened: what was asked, what is here, what is known, and what comes of it.
    `held` is the plan with what torchyard.lock and a bundle say.
    """

    loaded: LoadedSettings
    layout: Layout
    host: Host
    knowledge: Knowledge
    choice: Resolution
    plan: Plan
    pinned_plan: PinnedPlan | None = None

    @property
    def cost(self) -> Cost:
        """What it takes on one core, as far as the facts tell."""
        from tasks.planning.takes import estimate_strategy_cost  # noqa: PLC0415 - of no use to list tasks

        choice = self.choice
        return estimate_strategy_cost(
            self.loaded.settings, self.knowledge, choice.strategy, choice.targets
        )


@dataclass(frozen=True)
class SelectedProfile:
    """A profile by name; `opened` is None where `problem` says why."""

    root: Path
    name: str
    opened: Profile | None
    problem: TorchyardError | None = None

    @property
    def build(self) -> Path:
        """Its build folder, also where the profile cannot be opened."""
        return Path(compute_build_folder(self.root, self.name))

    def require_profile(self) -> Profile:
        """The profile. Raises the problem of one that does not open."""
        if self.opened is None:
            raise self.problem or TorchyardError(
                "this profile cannot be opened", location=self.name
            )
        return self.opened

    def read_settings(self) -> LoadedSettings:
        """The settings, also of a profile that cannot be planned. Raises `BuildError` where they
        are not well-formed.
        """
        if self.opened:
            return self.opened.loaded
        loaded = load_settings(self.root / "config", self.name, os.environ)
        try:
            return apply_tree_version(loaded, self.root)
        except SettingsError:
            return loaded
