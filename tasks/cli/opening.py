"""A profile, opened: settings read, the host looked at, the plan made. Nothing is written, and
nobody outside this machine is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path, PurePath

from tasks.core.model import Host
from tasks.knowledge import Knowledge, load
from tasks.lock.anchored import anchored
from tasks.lock.profile import Profile
from tasks.planning.plan import layout_of, make_plan, with_mirrors
from tasks.planning.unread import unread
from tasks.settings.load import Loaded
from tasks.settings.load import load as load_settings
from tasks.settings.location import located
from tasks.settings.schema import Settings
from tasks.stages.extensions.check import check as check_extensions
from tasks.stages.source.check import check as check_source
from tasks.stages.source.release import by_own_tree, of_another
from tasks.system.hardware import probe

HostOf = Callable[[probe.Asked, PurePath], Host]


def open_profile(  # noqa: PLR0913, PLR0917 - two that are for a matrix, one that is for init
    root: Path,
    profile: str,
    environ: Mapping[str, str],
    knowledge: Knowledge | None = None,
    host_of: HostOf = probe.host,
    local: str | None = None,
) -> Profile:
    """`knowledge` is read where it is not given; `host_of` looks at this machine, or at the file
    where that is pinned; `local` stands for what config/local.yaml holds. Raises `BuildError` where
    it cannot be planned.
    """
    loaded = load_settings(root / "config", profile, environ, local)
    with located(loaded):
        return _planned(root, loaded, knowledge, host_of)


def _planned(root: Path, loaded: Loaded, knowledge: Knowledge | None, host_of: HostOf) -> Profile:
    check_source(loaded.settings, root)
    loaded = by_own_tree(loaded, root)
    profile, settings = loaded.profile, loaded.settings
    layout = layout_of(root, profile, settings)
    check_extensions(settings, root)
    host = host_of(asked(settings), layout.build / "host.json")
    known = knowledge or load(root / "config" / "knowledge")
    choice, plan = make_plan(settings, host, known, layout)
    told = (*of_another(loaded, root), *plan.warnings, *unread(loaded, host, choice))
    plan = replace(plan, warnings=told)
    mirrors = with_mirrors(settings, known).source.mirrors
    held = anchored(settings, layout, choice, plan, mirrors)
    return Profile(loaded, layout, host, known, choice, held.plan, held)


def asked(settings: Settings) -> probe.Asked:
    """What the settings have the host asked."""
    return probe.Asked(settings.python, settings.toolkit.path)
