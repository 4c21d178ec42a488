"""Fill the placeholders of remedies ({jobs}, {file}, {install:compiler}) for this host and profile.

The placeholders are for logs of the profile. Those without a known value are omitted.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.core.errors import KnowledgeError
from tasks.core.text_formatting import format_size
from tasks.knowledge import package_managers
from tasks.knowledge.cuda_toolkits import (
    find_toolkit,
    list_capable_toolkits,
)
from tasks.planning.suggestions import format_wheel_alternatives
from tasks.system.hardware import capacity, operating_system

if TYPE_CHECKING:
    from tasks.core.model import Stage
    from tasks.diagnosis.run_facts import RunFacts
    from tasks.lock.opened_profile_io import Profile

_LOCAL_FILE = "config/local.yaml"
_OLDEST_GCC = 9  # the oldest gcc-N to search for


def build_profile_placeholders(
    profile: Profile, stage: Stage | None, facts: RunFacts | None
) -> dict[str, str]:
    """Return the placeholder values for a log of `profile`; `stage` is None if unknown."""
    choice, layout, knowledge = profile.choice, profile.layout, profile.knowledge
    build, settings_file = Path(layout.build), _find_settings_file(profile)
    jobs = facts.jobs or 0 if facts else 0
    safe_jobs = capacity.compute_safe_jobs()
    fewer = min(jobs // 2, safe_jobs) if jobs > 1 else safe_jobs // 2
    # Extensions must be set in the same file as now: a list in another file would replace it
    origin = profile.loaded.origin.get("extensions", "").partition(":")[0]
    is_writable = origin.startswith(("config/profiles/", _LOCAL_FILE))
    scripts = "Scripts" if choice.system == "windows" else "bin"
    auto_fix = f"; build.auto_fix: true in {settings_file} does this automatically"
    candidates = {
        "file": settings_file,
        "extensions_file": origin if is_writable else settings_file,
        "build": str(build),
        "free": format_size(shutil.disk_usage(build).free // 2**20) if build.is_dir() else "",
        "memory": format_size(capacity.find_memory_limit(capacity.find_control_groups())),
        "venv": str(layout.venv / scripts / "python"),
        "torch": choice.torch,
        "archs": ", ".join(map(str, choice.targets)),
        "cards": ", ".join(f'"{gpu.capability}"' for gpu in profile.host.gpus),
        "torch_cuda": choice.cuda or "",
        "compiler": facts.compiler if facts else "",
        "jobs": str(jobs) if jobs > 1 else "",
        "fewer": str(max(1, fewer)),
        **_build_stage_placeholders(profile, stage),
        **_build_cuda_placeholders(profile),
    }
    placeholders = {name: value for name, value in candidates.items() if value}
    versions = {"python": profile.host.python.minor}  # package names may contain them
    versions |= {"gcc": placeholders["gcc"]} if "gcc" in placeholders else {}
    systems = operating_system.list_system_names()
    for name in knowledge.package_managers.names:
        if text := package_managers.find_install_command(knowledge, systems, name, **versions):
            placeholders[f"install:{name}"] = text
    is_enabled = profile.loaded.settings.build.auto_fix
    return {**placeholders, "auto_fix": "" if is_enabled else auto_fix}


def suggest_other_torch(profile: Profile) -> str:
    """Suggest settings that planning accepts, for a torch wheel without code for a target GPU."""
    settings, host, knowledge = profile.loaded.settings, profile.host, profile.knowledge
    return format_wheel_alternatives(settings, host, knowledge) or (
        "set torch.index or torch.version to a wheel with code for that GPU, or remove the GPU "
        "from target.gpus"
    )


def _find_settings_file(profile: Profile) -> str:
    """Return the file to change a setting in: config/local.yaml if used, else the profile."""
    if any(location.startswith(_LOCAL_FILE) for location in profile.loaded.origin.values()):
        return _LOCAL_FILE
    return f"config/profiles/{profile.layout.profile.partition('@')[0]}.yaml"


def _build_stage_placeholders(profile: Profile, stage: Stage | None) -> dict[str, str]:
    """Return the placeholders for the failed extension, or for the PyTorch tree.

    `own_tree` is a tree of the user, where torchyard changes nothing automatically.
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
    """Return the placeholders for the toolkit, its host compilers and a toolkit for all targets."""
    choice, knowledge = profile.choice, profile.knowledge
    cuda = choice.toolkit.version or choice.cuda or ""
    home = next((kit.home for kit in profile.host.toolkits if kit.release == cuda), "")
    capable = list_capable_toolkits(knowledge, choice.targets) if choice.targets else ()
    placeholders = {"cuda": cuda, "home": home}
    if capable and cuda and cuda not in capable:
        placeholders["toolkit_for_archs"] = capable[0]
    try:
        toolkit = find_toolkit(knowledge, cuda)
    except KnowledgeError:
        return placeholders
    placeholders |= {"gcc": str(toolkit.gcc_max), "pypi_cuda": cuda if toolkit.pypi else ""}
    for number in range(toolkit.gcc_max, _OLDEST_GCC - 1, -1):
        cc, cxx = shutil.which(f"gcc-{number}"), shutil.which(f"g++-{number}")
        if cc and cxx:
            return {**placeholders, "cc": cc, "cxx": cxx}
    return placeholders
