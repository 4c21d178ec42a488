"""Fill the placeholders of remedies ({jobs}, {file}, {install:compiler}) for this host and profile.

The profile is used for its logs only. Unknown placeholders are omitted.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.core.errors import KnowledgeError
from tasks.core.text_formatting import format_size
from tasks.knowledge import package_managers
from tasks.knowledge.cuda_toolkits import (
    find_toolkit,
    list_capable_toolkits,
)
from tasks.planning.resolve import resolve_without_suggestions
from tasks.planning.suggestions import format_wheel_alternatives
from tasks.system.hardware import capacity, operating_system

if TYPE_CHECKING:
    from tasks.core.model import Stage
    from tasks.diagnosis.run_facts import RunFacts
    from tasks.knowledge import Knowledge
    from tasks.lock.opened_profile_io import Profile

_LOCAL_FILE = "config/local.yaml"
_OLDEST_GCC = 9  # the lowest N of gcc-N that is searched for


def build_host_placeholders(
    knowledge: Knowledge, python: str = "", gcc: str = ""
) -> dict[str, str]:
    """Return the placeholders that do not depend on a profile.

    `python` and `gcc` are versions that are part of package names.
    """
    placeholders = {
        "fewer": str(max(1, capacity.compute_safe_jobs() // 2)),
        "memory": format_size(capacity.find_memory_limit(capacity.find_control_groups())),
    }
    python_version = python or ".".join(map(str, sys.version_info[:2]))
    names = {"python": python_version, **({"gcc": gcc} if gcc else {})}
    return {**placeholders, **dict(_list_install_commands(knowledge, names))}


def build_profile_placeholders(
    profile: Profile, stage: Stage | None, facts: RunFacts | None
) -> dict[str, str]:
    """Return the placeholders for a log of this profile, and of `stage` if it is known."""
    resolution, layout, knowledge = profile.choice, profile.layout, profile.knowledge
    candidates = {
        "file": _find_settings_file(profile),
        "extensions_file": _find_extensions_file(profile),
        "build": str(layout.build),
        "free": _format_free_space(Path(layout.build)),
        "venv": str(
            layout.venv / ("Scripts" if resolution.system == "windows" else "bin") / "python"
        ),
        "torch": resolution.torch,
        "archs": ", ".join(map(str, resolution.targets)),
        "cards": ", ".join(f'"{gpu.capability}"' for gpu in profile.host.gpus),
        "torch_cuda": resolution.cuda or "",
        "compiler": facts.compiler if facts else "",
        **_build_job_placeholders(facts),
        **_build_stage_placeholders(profile, stage),
        **_build_cuda_placeholders(profile),
    }
    placeholders = {name: value for name, value in candidates.items() if value}
    host_placeholders = build_host_placeholders(
        knowledge, profile.host.python.minor, placeholders.get("gcc", "")
    )
    return {**host_placeholders, **placeholders, "auto_fix": _offer_auto_fix(profile)}


def suggest_other_torch(profile: Profile) -> str:
    """Return what to set instead of a wheel without code for a target; planning accepts each."""
    settings, host, knowledge = profile.loaded.settings, profile.host, profile.knowledge
    return format_wheel_alternatives(settings, host, knowledge, resolve_without_suggestions) or (
        "set torch.index or torch.version to a wheel with code for that GPU, or remove the GPU "
        "from target.gpus"
    )


def _offer_auto_fix(profile: Profile) -> str:
    """Return the offer to set build.auto_fix, "" if it is set."""
    is_enabled = profile.loaded.settings.build.auto_fix
    return (
        ""
        if is_enabled
        else f"; build.auto_fix: true in {_find_settings_file(profile)} does it by itself"
    )


def _find_settings_file(profile: Profile) -> str:
    """Return the file for a setting: the profile, unless config/local.yaml overrides it."""
    is_local = any(location.startswith(_LOCAL_FILE) for location in profile.loaded.origin.values())
    return (
        _LOCAL_FILE
        if is_local
        else f"config/profiles/{profile.layout.profile.partition('@')[0]}.yaml"
    )


def _find_extensions_file(profile: Profile) -> str:
    """Return the file with the list of extensions: a list in another file would replace it."""
    location = profile.loaded.origin.get("extensions", "").partition(":")[0]
    return (
        location
        if location.startswith(("config/profiles/", _LOCAL_FILE))
        else _find_settings_file(profile)
    )


def _format_free_space(build: Path) -> str:
    return format_size(shutil.disk_usage(build).free // 2**20) if build.is_dir() else ""


def _build_job_placeholders(facts: RunFacts | None) -> dict[str, str]:
    if facts is None or not facts.jobs:
        return {}
    fewer = max(1, min(facts.jobs // 2, capacity.compute_safe_jobs()))
    return {"jobs": str(facts.jobs), "fewer": str(fewer)} if facts.jobs > 1 else {}


def _build_stage_placeholders(profile: Profile, stage: Stage | None) -> dict[str, str]:
    """Return the extension, or the tree that is compiled.

    `own_tree` is the user's tree, where torchyard changes nothing automatically.
    """
    if stage and stage.kind == "extensions":
        name, job = stage.name.partition(":")[2], stage.job
        return {
            "extension": name,
            "own_tree": job.location if job.kind == "path" else "",
            "without_submodules": name if job.kind == "git" and not job.submodules else "",
        }
    tree = next(
        (source_stage.job.tree for source_stage in profile.plan.find_stages("source")), None
    )
    is_managed = tree is None or tree.is_relative_to(profile.layout.build)
    return {"tree" if is_managed else "own_tree": str(tree or "")}


def _build_cuda_placeholders(profile: Profile) -> dict[str, str]:
    """Return the toolkit of the build, its compiler limits, and a toolkit for unsupported archs."""
    resolution, knowledge = profile.choice, profile.knowledge
    cuda_version = resolution.toolkit.version or resolution.cuda or ""
    homes = [kit.home for kit in profile.host.toolkits if kit.release == cuda_version]
    capable_releases = (
        list_capable_toolkits(knowledge, resolution.targets) if resolution.targets else ()
    )
    placeholders = {"cuda": cuda_version, "home": homes[0] if homes else ""}
    if capable_releases and cuda_version and cuda_version not in capable_releases:
        placeholders["toolkit_for_archs"] = capable_releases[0]
    try:
        toolkit = find_toolkit(knowledge, cuda_version)
    except KnowledgeError:
        return placeholders
    placeholders |= {"gcc": str(toolkit.gcc_max), "pypi_cuda": cuda_version if toolkit.pypi else ""}
    return placeholders | _find_newest_gcc(toolkit.gcc_max)


def _find_newest_gcc(newest: int) -> dict[str, str]:
    """Return the newest installed gcc-N and g++-N, with N at most `newest`."""
    for number in range(newest, _OLDEST_GCC - 1, -1):
        cc, cxx = shutil.which(f"gcc-{number}"), shutil.which(f"g++-{number}")
        if cc and cxx:
            return {"cc": cc, "cxx": cxx}
    return {}


def _list_install_commands(
    knowledge: Knowledge, words: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield the commands of this host's package manager: `install:compiler`."""
    systems = operating_system.list_system_names()
    for name in knowledge.package_managers.names:
        if text := package_managers.find_install_command(knowledge, systems, name, **words):
            yield f"install:{name}", text
