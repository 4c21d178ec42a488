"""What the words of a remedy ({jobs}, {file}, {install:compiler}) stand for on this host, and in
this profile where the log is one of its own. What is not known here is left out.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.core.errors import KnowledgeError
from tasks.core.formatting.size import size
from tasks.knowledge import packagemanagers
from tasks.knowledge.toolkits import compiler_limit, toolkit, toolkits_for
from tasks.planning.decide import attempt
from tasks.planning.suggestions import instead_of_wheel
from tasks.system.hardware import capacity, memory, packagemanager

if TYPE_CHECKING:
    from tasks.core.model import Stage
    from tasks.diagnosis.facts import Facts
    from tasks.knowledge import Knowledge
    from tasks.lock.profile import Profile

_LOCAL = "config/local.yaml"
_OLDEST_GCC = 9  # of the names with a number that are looked for


def of_host(knowledge: Knowledge, python: str = "", gcc: str = "") -> dict[str, str]:
    """What holds for any log that is read here; `python` and `gcc` are versions that the names
    of packages have in them.
    """
    known = {
        "fewer": str(max(1, capacity.safe_jobs() // 2)),
        "memory": size(memory.limit_mib(memory.groups())),
    }
    minor = python or ".".join(map(str, sys.version_info[:2]))
    words = {"python": minor, **({"gcc": gcc} if gcc else {})}
    return {**known, **dict(_installing(knowledge, words))}


def of_profile(profile: Profile, stage: Stage | None, facts: Facts | None) -> dict[str, str]:
    """What holds for a log of this profile, of `stage` where that is known."""
    choice, layout, knowledge = profile.choice, profile.layout, profile.knowledge
    known = {
        "file": _file(profile),
        "extensions_file": _file_of_extensions(profile),
        "build": str(layout.build),
        "free": _free(Path(layout.build)),
        "venv": str(layout.venv / ("Scripts" if choice.system == "windows" else "bin") / "python"),
        "torch": choice.torch,
        "archs": ", ".join(map(str, choice.targets)),
        "cards": ", ".join(f'"{gpu.capability}"' for gpu in profile.host.gpus),
        "torch_cuda": choice.cuda or "",
        "compiler": facts.compiler if facts else "",
        **_of_jobs(facts),
        **_of_stage(profile, stage),
        **_of_cuda(profile),
    }
    found = {name: value for name, value in known.items() if value}
    host = of_host(knowledge, profile.host.python.minor, found.get("gcc", ""))
    return {**host, **found, "heal": _offer(profile)}


def suggest_other_torch(profile: Profile) -> str:
    """Return what to set instead of a wheel without code for a target; planning accepts each."""
    asked, host, knowledge = profile.loaded.settings, profile.host, profile.knowledge
    return instead_of_wheel(asked, host, knowledge, attempt) or (
        "set torch.index or torch.version to a wheel with code for that GPU, or remove the GPU "
        "from target.gpus"
    )


def _offer(profile: Profile) -> str:
    """To let a build do it: not to who has that on."""
    on = profile.loaded.settings.build.heal
    return "" if on else f"; build.heal: true in {_file(profile)} does it by itself"


def _file(profile: Profile) -> str:
    """Where a setting counts: the profile, unless there is a file that goes before it."""
    local = any(where.startswith(_LOCAL) for where in profile.loaded.origin.values())
    return _LOCAL if local else f"config/profiles/{profile.layout.profile.partition('@')[0]}.yaml"


def _file_of_extensions(profile: Profile) -> str:
    """The file that has the list: one in another file would take its place."""
    where = profile.loaded.origin.get("extensions", "").partition(":")[0]
    return where if where.startswith(("config/profiles/", _LOCAL)) else _file(profile)


def _free(build: Path) -> str:
    return size(shutil.disk_usage(build).free // 2**20) if build.is_dir() else ""


def _of_jobs(facts: Facts | None) -> dict[str, str]:
    if facts is None or not facts.jobs:
        return {}
    fewer = max(1, min(facts.jobs // 2, capacity.safe_jobs()))
    return {"jobs": str(facts.jobs), "fewer": str(fewer)} if facts.jobs > 1 else {}


def _of_stage(profile: Profile, stage: Stage | None) -> dict[str, str]:
    """The extension, and the tree that is compiled: `own_tree` is a person's own, where a build
    does nothing by itself.
    """
    if stage and stage.room == "extensions":
        name, job = stage.name.partition(":")[2], stage.job
        return {
            "extension": name,
            "own_tree": job.location if job.kind == "path" else "",
            "without_submodules": name if job.kind == "git" and not job.submodules else "",
        }
    tree = next((one.job.tree for one in profile.plan.of("source")), None)
    ours = tree is None or tree.is_relative_to(profile.layout.build)
    return {"tree" if ours else "own_tree": str(tree or "")}


def _of_cuda(profile: Profile) -> dict[str, str]:
    """The toolkit that compiles, what it takes, and one that makes the archs where it does not."""
    choice, knowledge = profile.choice, profile.knowledge
    wanted = choice.toolkit.version or choice.cuda or ""
    homes = [kit.home for kit in profile.host.toolkits if kit.release == wanted]
    able = toolkits_for(knowledge, choice.targets) if choice.targets else ()
    known = {"cuda": wanted, "home": homes[0] if homes else ""}
    if able and wanted and wanted not in able:
        known["toolkit_for_archs"] = able[0]
    try:
        gcc = compiler_limit(knowledge, wanted).gcc_max
        known |= {"gcc": str(gcc), "pypi_cuda": wanted if toolkit(knowledge, wanted).pypi else ""}
    except KnowledgeError:
        return known
    return known | _newest_gcc(gcc)


def _newest_gcc(newest: int) -> dict[str, str]:
    """The newest of gcc-N and g++-N that are here, up to that N."""
    for number in range(newest, _OLDEST_GCC - 1, -1):
        cc, cxx = shutil.which(f"gcc-{number}"), shutil.which(f"g++-{number}")
        if cc and cxx:
            return {"cc": cc, "cxx": cxx}
    return {}


def _installing(knowledge: Knowledge, words: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The commands of the package manager that is here: `install:compiler`."""
    systems = packagemanager.systems()
    for name in knowledge.package_managers.names:
        if text := packagemanagers.command(knowledge, systems, name, **words):
            yield f"install:{name}", text
