"""Define the class of a profile, and pin its plan to torchyard.lock and a bundle."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.core.errors import SettingsError, TorchyardError
from tasks.core.model import Host, Layout, Plan
from tasks.core.project import LOCK_NAME, Project
from tasks.core.resolution import Resolution
from tasks.knowledge import Knowledge
from tasks.settings.layers_io import load_settings, read_yaml_text
from tasks.settings.loaded_settings import LoadedSettings
from tasks.settings.schema import Settings
from tasks.stages.source.source_checks_io import apply_tree_version

if TYPE_CHECKING:
    from tasks.knowledge.costs import Cost
    from tasks.lock.bundle_archive_io import Bundle
    from tasks.lock.lock_file import LockSection as Section


@dataclass(frozen=True)
class PinnedPlan:
    """A plan pinned to a section of torchyard.lock and to a bundle.

    `section` or `bundle` is `None` if the plan does not use it. `mirrors` maps URLs to mirror URLs.
    """

    plan: Plan
    section: Section | None = None
    bundle: Bundle | None = None
    mirrors: Mapping[str, str] = field(default_factory=dict)


def load_pinned_plan(
    settings: Settings,
    layout: Layout,
    choice: Resolution,
    plan: Plan,
    mirrors: Mapping[str, str] | None = None,
) -> PinnedPlan:
    """Pin the plan to its section in torchyard.lock and to the bundle in the setting `offline`.

    Raises `SettingsError` for an unusable bundle.
    """
    lock_path, section = Path(layout.project.lock_file), None
    if settings.lock and lock_path.is_file():
        from tasks.lock.lock_file import parse_section, pin_plan  # noqa: PLC0415 - most have no lock

        section = parse_section(read_yaml_text(lock_path, LOCK_NAME), layout.profile)
        plan = pin_plan(plan, section, choice) if section else plan
    if not settings.offline:
        return PinnedPlan(plan, section, mirrors=mirrors or {})

    from tasks.lock import bundle_archive_io  # noqa: PLC0415 - most use the network
    from tasks.lock.lock_file import identify_platform  # noqa: PLC0415

    bundle_path = Path(layout.root, settings.offline)
    bundle = bundle_archive_io.read_bundle(bundle_path)
    bundle_archive_io.require_complete_bundle(bundle_path, bundle)
    python, platform = identify_platform(choice)
    if (bundle.python, bundle.platform) != (python, platform):
        supported = f"is for Python {bundle.python} on {bundle.platform}"
        hint = "create a bundle on a machine like this one"
        if bundle.platform == platform:
            hint = f'set python: "{bundle.python}", or {hint}'
        message = f"the bundle {bundle_path} {supported}, but this is Python {python} on {platform}"
        raise SettingsError(message, location="offline", hint=hint)
    folder = bundle_archive_io.resolve_bundle_folder(bundle_path, layout.build)
    return PinnedPlan(bundle_archive_io.redirect_plan(plan, bundle, folder), section, bundle)


def find_locked_release(settings: Settings, project: Project, profile: str) -> str:
    """Return the torch release of a profile in torchyard.lock, "" if there is none."""
    path = Path(project.lock_file)
    if not settings.lock or not path.is_file():
        return ""
    from tasks.lock.lock_file import parse_section  # noqa: PLC0415 - most have no lock

    section = parse_section(read_yaml_text(path, LOCK_NAME), profile)
    return section.release if section and section.strategy != "existing" else ""


def activate_sources(settings: Settings, layout: Layout, pinned: PinnedPlan) -> None:
    """Activate the bundle or the mirrors for this process. Must run before any download."""
    if settings.offline and pinned.bundle:
        from tasks.lock import bundle_archive_io  # noqa: PLC0415 - most have no bundle

        place = Path(layout.root, settings.offline)
        bundle_archive_io.activate_bundle(place, pinned.bundle, layout.build)
    elif pinned.mirrors:
        from tasks.system.network import package_indexes  # noqa: PLC0415 - most have no mirror

        package_indexes.set_index_mirrors(pinned.mirrors)


@dataclass(frozen=True)
class Profile:
    """A profile with its settings and plan. `pinned_plan` has the lock and bundle of the plan.

    `release_source` says who chose the torch release if torch.version is `auto`, else "".
    """

    loaded: LoadedSettings
    layout: Layout
    host: Host
    knowledge: Knowledge
    choice: Resolution
    plan: Plan
    pinned_plan: PinnedPlan | None = None
    release_source: str = ""

    @property
    def cost(self) -> Cost:
        """Return the estimated cost of the build on one core."""
        from tasks.planning.strategy_comparison import estimate_strategy_cost  # noqa: PLC0415 - not needed to list tasks

        settings, choice = self.loaded.settings, self.choice
        return estimate_strategy_cost(settings, self.knowledge, choice.strategy, choice.targets)


@dataclass(frozen=True)
class SelectedProfile:
    """The profile `name` that a command selects. `problem` is the reason if `opened` is `None`."""

    project: Project
    name: str
    opened: Profile | None
    problem: TorchyardError | None = None

    @property
    def root(self) -> Path:
        """Return the folder that relative paths in the settings start at."""
        return Path(self.project.root)

    @property
    def build(self) -> Path:
        """Return the build directory, even if the profile cannot be opened."""
        return Path(self.project.compute_build_folder(self.name))

    def require_profile(self) -> Profile:
        """Return the opened profile, or raise `problem` if it cannot be opened."""
        if self.opened is None:
            raise self.problem or TorchyardError("the profile is not loaded", location=self.name)
        return self.opened

    def read_settings(self) -> LoadedSettings:
        """Return the settings, even without a plan. Raises `SettingsError` if they are invalid."""
        if self.opened:
            return self.opened.loaded
        loaded_settings = load_settings(self.project, self.name, os.environ)
        try:
            return apply_tree_version(loaded_settings, self.root)
        except SettingsError:
            return loaded_settings
