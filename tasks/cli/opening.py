"""A profile, opened: settings read, the host looked at, the plan made. Nothing is written, and
nobody outside this machine is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path, PurePath

from tasks.core.model import Host
from tasks.knowledge import Knowledge, load_knowledge
from tasks.lock.anchored import load_pinned_plan
from tasks.lock.profile import Profile
from tasks.planning.plan import add_mirrors, build_layout, make_plan
from tasks.planning.unread import list_unused_setting_warnings
from tasks.settings.load import LoadedSettings
from tasks.settings.load import load_settings as load_settings
from tasks.settings.location import add_setting_location
from tasks.settings.schema import Settings
from tasks.stages.extensions.check import check_extensions as check_extensions
from tasks.stages.source.check import check_source_settings as check_source
from tasks.stages.source.release import apply_tree_version, list_release_warnings
from tasks.system.hardware import probe

HostReader = Callable[[probe.HostQuery, PurePath], Host]


def open_profile(  # noqa: PLR0913, PLR0917 - two that are for a matrix, one that is for init
    root: Path,
    profile: str,
    environ: Mapping[str, str],
    knowledge: Knowledge | None = None,
    host_of: HostReader = probe.read_host,
    local: str | None = None,
) -> Profile:
    """`knowledge` is read where it is not given; `host_of` looks at this machine, or at the file
    where that is pinned; `local` stands for what config/local.yaml holds. Raises `BuildError` where
    it cannot be planned.
    """
    loaded = load_settings(root / "config", profile, environ, local)
    with add_setting_location(loaded):
        return _plan_profile(root, loaded, knowledge, host_of)


def _plan_profile(
    root: Path, loaded: LoadedSettings, knowledge: Knowledge | None, host_of: HostReader
) -> Profile:
    check_source(loaded.settings, root)
    loaded = apply_tree_version(loaded, root)
    profile, settings = loaded.profile, loaded.settings
    layout = build_layout(root, profile, settings)
    check_extensions(settings, root)
    host = host_of(build_host_query(settings), layout.build / "host.json")
    known = knowledge or load_knowledge(root / "config" / "knowledge")
    choice, plan = make_plan(settings, host, known, layout)
    told = (
        *list_release_warnings(loaded, root),
        *plan.warnings,
        *list_unused_setting_warnings(loaded, host, choice),
    )
    plan = replace(plan, warnings=told)
    mirrors = add_mirrors(settings, known).source.mirrors
    held = load_pinned_plan(settings, layout, choice, plan, mirrors)
    return Profile(loaded, layout, host, known, choice, held.plan, held)


def build_host_query(settings: Settings) -> probe.HostQuery:
    """What the settings have the host asked."""
    return probe.HostQuery(settings.python, settings.toolkit.path)
