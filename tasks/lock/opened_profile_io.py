"""What a plan is held to: the commits and files of torchyard.lock, and a bundle instead of a
network. Neither moves an input.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.core.errors import SettingsError, TorchyardError
from tasks.core.model import Host, Layout, Plan, compute_build_folder
from tasks.core.resolution import Resolution
from tasks.knowledge import Knowledge
from tasks.lock import LOCK_NAME
from tasks.settings.layers_io import load_settings, read_yaml_text
from tasks.settings.loaded_settings import LoadedSettings
from tasks.settings.schema import Settings
from tasks.stages.source.source_checks_io import apply_tree_version

if TYPE_CHECKING:
    from tasks.knowledge.costs import Cost
    from tasks.lock.bundle_manifest import Bundle
    from tasks.lock.lock_file import LockSection as Section


@dataclass(frozen=True)
class PinnedPlan:
    """The plan as it is held, the section of its profile, the bundle of the setting offline, and
    what is asked instead of a URL.
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
    """Raises `SettingsError` for a lock or a bundle that is not understood, or for another
    machine.
    """
    section = (
        _read_section(Path(layout.root) / LOCK_NAME, layout.profile) if settings.lock else None
    )
    if section:
        from tasks.lock.plan_pinning import pin_plan  # noqa: PLC0415 - most have no lock

        plan = pin_plan(plan, section, choice)
    place = resolve_bundle_path(settings, layout)
    if place is None:
        return PinnedPlan(plan, section, mirrors=mirrors or {})

    from tasks.lock import bundle_archive_io  # noqa: PLC0415
    from tasks.lock.bundle_manifest import redirect_plan  # noqa: PLC0415 - most ask a network

    bundle = bundle_archive_io.read_bundle(place)
    bundle_archive_io.require_complete_bundle(place, bundle)
    _require_same_platform(bundle, choice, place)
    folder = bundle_archive_io.resolve_bundle_folder(place, layout.build)
    return PinnedPlan(redirect_plan(plan, bundle, folder), section, bundle)


def activate_sources(settings: Settings, layout: Layout, held: PinnedPlan) -> None:
    """Before anything is fetched."""
    place = resolve_bundle_path(settings, layout)
    if place and held.bundle:
        from tasks.lock import bundle_archive_io  # noqa: PLC0415 - most have no bundle

        bundle_archive_io.activate_bundle(place, held.bundle, layout.build)
    elif held.mirrors:
        from tasks.system.network import package_indexes  # noqa: PLC0415 - most have no mirror

        package_indexes.set_index_mirrors(held.mirrors)


def resolve_bundle_path(settings: Settings, layout: Layout) -> Path | None:
    """Where the bundle is."""
    return Path(layout.root) / settings.offline if settings.offline else None


def _read_section(file: Path, profile: str) -> Section | None:
    if not file.is_file():
        return None
    from tasks.lock.lock_file import parse_section  # noqa: PLC0415 - most have no lock

    return parse_section(read_yaml_text(file, LOCK_NAME), profile)


def _require_same_platform(bundle: Bundle, choice: Resolution, place: Path) -> None:
    from tasks.lock.plan_pinning import identify_platform  # noqa: PLC0415 - most have no bundle

    python, platform = identify_platform(choice)
    if (bundle.python, bundle.platform) != (python, platform):
        alike = "make a bundle on a machine like this one"
        other = f'choose that Python (python: "{bundle.python}"), or {alike}'
        raise SettingsError(
            f"the bundle {place} is for Python {bundle.python} on {bundle.platform}, and this is "
            f"Python {python} on {platform}",
            location="offline",
            hint=other if bundle.platform == platform else alike,
        )


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
        from tasks.planning.strategy_comparison import estimate_strategy_cost  # noqa: PLC0415 - of no use to list tasks

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
