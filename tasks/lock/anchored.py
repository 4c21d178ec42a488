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
from tasks.core.resolution import Choice
from tasks.lock import LOCK
from tasks.settings.schema import Settings
from tasks.settings.yamltree import text_of

if TYPE_CHECKING:
    from tasks.lock.bundle.manifest import Bundle
    from tasks.lock.section import Profile as Section


@dataclass(frozen=True)
class Anchored:
    """The plan as it is held, the section of its profile, the bundle of the setting offline, and
    what is asked instead of a URL.
    """

    plan: Plan
    section: Section | None = None
    bundle: Bundle | None = None
    mirrors: Mapping[str, str] = field(default_factory=dict)


def anchored(
    settings: Settings,
    layout: Layout,
    choice: Choice,
    plan: Plan,
    mirrors: Mapping[str, str] | None = None,
) -> Anchored:
    """Raises `SettingsError` for a lock or a bundle that is not understood, or for another
    machine.
    """
    section = _section(Path(layout.root) / LOCK, layout.profile) if settings.lock else None
    if section:
        from tasks.lock.pinning import pinned  # noqa: PLC0415 - most have no lock

        plan = pinned(plan, section, choice)
    place = place_of(settings, layout)
    if place is None:
        return Anchored(plan, section, mirrors=mirrors or {})

    from tasks.lock.bundle import opening  # noqa: PLC0415
    from tasks.lock.bundle.manifest import redirected  # noqa: PLC0415 - most ask a network

    bundle = opening.read(place)
    opening.require_whole(place, bundle)
    _require_for(bundle, choice, place)
    folder = opening.folder_of(place, layout.build)
    return Anchored(redirected(plan, bundle, folder), section, bundle)


def begin(settings: Settings, layout: Layout, held: Anchored) -> None:
    """Before anything is fetched."""
    place = place_of(settings, layout)
    if place and held.bundle:
        from tasks.lock.bundle import opening  # noqa: PLC0415 - most have no bundle

        opening.begin(place, held.bundle, layout.build)
    elif held.mirrors:
        from tasks.system.network import indexes  # noqa: PLC0415 - most have no mirror

        indexes.begin(held.mirrors)


def place_of(settings: Settings, layout: Layout) -> Path | None:
    """Where the bundle is."""
    return Path(layout.root) / settings.offline if settings.offline else None


def _section(file: Path, profile: str) -> Section | None:
    if not file.is_file():
        return None
    from tasks.lock.text import read  # noqa: PLC0415 - most have no lock

    return read(text_of(file, LOCK), profile)


def _require_for(bundle: Bundle, choice: Choice, place: Path) -> None:
    from tasks.lock.pinning import machine  # noqa: PLC0415 - most have no bundle

    python, platform = machine(choice)
    if (bundle.python, bundle.platform) != (python, platform):
        alike = "make a bundle on a machine like this one"
        other = f'choose that Python (python: "{bundle.python}"), or {alike}'
        raise SettingsError(
            f"the bundle {place} is for Python {bundle.python} on {bundle.platform}, and this is "
            f"Python {python} on {platform}",
            where="offline",
            todo=other if bundle.platform == platform else alike,
        )
