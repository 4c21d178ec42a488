"""What a plan is held to: the commits and files of torchyard.lock, and a bundle instead of a
network. Neither moves an input.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.core.errors import SettingsError
from tasks.core.model import Layout, Plan
from tasks.core.resolution import Resolution
from tasks.lock import LOCK_NAME
from tasks.settings.schema import Settings
from tasks.settings.yamltree import read_yaml_text

if TYPE_CHECKING:
    from tasks.lock.bundle.manifest import Bundle
    from tasks.lock.section import LockSection as Section


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
        from tasks.lock.pinning import pin_plan  # noqa: PLC0415 - most have no lock

        plan = pin_plan(plan, section, choice)
    place = resolve_bundle_path(settings, layout)
    if place is None:
        return PinnedPlan(plan, section, mirrors=mirrors or {})

    from tasks.lock.bundle import opening  # noqa: PLC0415
    from tasks.lock.bundle.manifest import redirect_plan  # noqa: PLC0415 - most ask a network

    bundle = opening.read_bundle(place)
    opening.require_complete_bundle(place, bundle)
    _require_same_platform(bundle, choice, place)
    folder = opening.resolve_bundle_folder(place, layout.build)
    return PinnedPlan(redirect_plan(plan, bundle, folder), section, bundle)


def activate_sources(settings: Settings, layout: Layout, held: PinnedPlan) -> None:
    """Before anything is fetched."""
    place = resolve_bundle_path(settings, layout)
    if place and held.bundle:
        from tasks.lock.bundle import opening  # noqa: PLC0415 - most have no bundle

        opening.activate_bundle(place, held.bundle, layout.build)
    elif held.mirrors:
        from tasks.system.network import indexes  # noqa: PLC0415 - most have no mirror

        indexes.set_index_mirrors(held.mirrors)


def resolve_bundle_path(settings: Settings, layout: Layout) -> Path | None:
    """Where the bundle is."""
    return Path(layout.root) / settings.offline if settings.offline else None


def _read_section(file: Path, profile: str) -> Section | None:
    if not file.is_file():
        return None
    from tasks.lock.text import parse_section  # noqa: PLC0415 - most have no lock

    return parse_section(read_yaml_text(file, LOCK_NAME), profile)


def _require_same_platform(bundle: Bundle, choice: Resolution, place: Path) -> None:
    from tasks.lock.pinning import identify_platform  # noqa: PLC0415 - most have no bundle

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
