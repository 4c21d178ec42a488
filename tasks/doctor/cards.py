"""Toolkit, cards, driver, and whether what is built can run on what is here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tasks.core.errors import KnowledgeError
from tasks.core.formatting.size import size
from tasks.core.model import Arch
from tasks.doctor.symptom import Symptom, command, ok, problem, unchecked, warning
from tasks.knowledge.archs import MachineCode
from tasks.knowledge.covers import covers
from tasks.knowledge.toolkits import driver_floor
from tasks.knowledge.versions import numbers
from tasks.planning.decide import attempt
from tasks.planning.suggestions.trial import Trial

if TYPE_CHECKING:
    from tasks.core.model import Gpu
    from tasks.doctor.host_facts import Surroundings, Tool
    from tasks.knowledge import Knowledge
    from tasks.knowledge.driver import Nvidia
    from tasks.lock.profile import Profile

_ACCEPT = command("doit doctor --accept", "to plan from what is here now:")


def judge(s: Surroundings, profile: Profile | None, knowledge: Knowledge) -> Iterator[Symptom]:
    """toolkit, cards, targets, driver."""
    yield _toolkit(s, profile)
    if s.nvidia is None:
        yield from (unchecked(check) for check in ("cards", "targets", "driver"))
        return
    yield _cards(s, s.nvidia, profile)
    yield _targets(s.nvidia, profile)
    yield _driver(s, s.nvidia, profile, knowledge)


def _toolkit(s: Surroundings, profile: Profile | None) -> Symptom:
    if profile is None:
        here = ", ".join(f"{kit.version} at {kit.home}" for kit in s.host.toolkits)
        return ok("toolkit", here or "none installed")
    chosen = profile.choice.toolkit
    if chosen.provider in {"none", "pypi"}:
        packages = f"CUDA {chosen.version} comes as Python packages"
        return ok("toolkit", packages if chosen.version else "a build for the CPU needs none")
    return _installed(s.nvcc, chosen.home, chosen.version)


def _installed(nvcc: Tool | None, home: str, version: str) -> Symptom:
    if nvcc is None:
        return unchecked("toolkit")
    if not nvcc.path:
        todo = "install it again, name another in toolkit.path, or,"
        return problem("toolkit", f"no nvcc that runs at {home}", f"{todo} {_ACCEPT}")
    seen = f"{nvcc.version} at {home}"
    if not nvcc.version.startswith(f"{version}."):
        return warning("toolkit", f"{seen}; planned was CUDA {version}", _ACCEPT)
    return ok("toolkit", seen)


def _cards(s: Surroundings, nvidia: Nvidia, profile: Profile | None) -> Symptom:
    if nvidia.trouble or nvidia.lost:
        return _silent(s, nvidia, profile)
    if not nvidia.cards:
        absent = "no NVIDIA card or no driver"
        return ok("cards", f"{absent}: builds work, checks on a card are not run")
    named = ", ".join(map(_named, nvidia.cards))
    then = {gpu.capability for gpu in s.host.gpus}
    now = {gpu.capability for gpu in nvidia.cards}
    if s.host.pinned and _auto(profile) and then != now:
        planned = ", ".join(sorted(then)) or "no card"
        return warning("cards", f"{named}; this profile was planned for {planned}", _ACCEPT)
    return ok("cards", named)


def _auto(profile: Profile | None) -> bool:
    return profile is not None and profile.loaded.settings.target.gpus == "auto"


def _silent(s: Surroundings, nvidia: Nvidia, profile: Profile | None) -> Symptom:
    """A card that cannot be asked is no reason to build for another one."""
    if nvidia.trouble:
        seen = f"there is a driver, and its cards cannot be asked: {nvidia.trouble}"
    else:
        named = ", ".join(map(_named, nvidia.cards))
        more = f"{nvidia.lost} more" if named else f"{nvidia.lost} here"
        seen = f"{named}; {more} that does not answer".removeprefix("; ")
    if "mismatch" in nvidia.trouble.lower():
        todo = command("sudo reboot", "restart: the driver was upgraded while it was in use")
    else:
        todo = command("nvidia-smi", "restart the machine, or see what is said here:")
    if _auto(profile) and not s.host.gpus and not nvidia.cards:
        named = 'or name it, with target.gpus: ["RTX 4090"] for example'
        return problem("cards", f"{seen}; another card would be assumed", f"{todo}\n{named}")
    return warning("cards", seen, todo)


def _named(gpu: Gpu) -> str:
    memory = f", {size(gpu.memory_mib)}" if gpu.memory_mib else ""
    return f"{gpu.name} ({gpu.capability}{memory})"


def _targets(nvidia: Nvidia, profile: Profile | None) -> Symptom:
    if profile is None:
        return unchecked("targets", "the profile does not open")
    targets = profile.choice.targets
    if not targets:
        return ok("targets", f"no card is a target: {profile.choice.targets_why}")
    named = ", ".join(map(str, targets))
    if not nvidia.cards:
        return ok("targets", f"{named}: {profile.choice.targets_why}")
    foreign = [gpu for gpu in nvidia.cards if not _runs(gpu, nvidia, profile)]
    if not foreign:
        return ok("targets", f"{named}, which the cards here can run")
    cards = " and ".join(sorted({f"{gpu.name} ({gpu.capability})" for gpu in foreign}))
    both = {*targets, *(Arch.parse(gpu.capability) for gpu in foreign)}
    add = ", ".join(f'"{arch}"' for arch in sorted(both))
    todo = f"if it is meant for here, write target.gpus: [{add}]"
    if not _can_plan(profile, sorted(both)):
        todo = f"no known torch and CUDA support all of {add}: use another profile"
    return warning("targets", f"{named}: {cards} in this machine cannot run that", todo)


def _can_plan(profile: Profile, targets: list[Arch]) -> bool:
    trial = Trial(profile.loaded.settings, profile.host, profile.knowledge, attempt)
    return trial.of(target={"gpus": tuple(map(str, targets))}) is not None


def _runs(gpu: Gpu, nvidia: Nvidia, profile: Profile) -> bool:
    targets = frozenset(profile.choice.targets)
    ptx = frozenset({max(targets)}) if profile.choice.ptx and targets else frozenset()
    try:
        return covers(
            profile.knowledge,
            MachineCode(targets, ptx),
            Arch.parse(gpu.capability),
            maker=profile.choice.cuda,
            driver=nvidia.cuda or None,
        )
    except KnowledgeError:
        return False


def _driver(
    s: Surroundings, nvidia: Nvidia, profile: Profile | None, knowledge: Knowledge
) -> Symptom:
    """One older than torch's CUDA needs starts, and then fails at the first kernel."""
    cuda = profile.choice.cuda if profile else None
    if not nvidia.driver:
        silent = unchecked("driver", "its version could not be asked")
        return silent if nvidia.trouble or nvidia.cards else ok("driver", "none")
    knows = f", for CUDA up to {nvidia.cuda}" if nvidia.cuda else ""
    if profile is None or not cuda:
        return ok("driver", f"{nvidia.driver}{knows}")
    try:
        floor = driver_floor(knowledge, cuda)
    except KnowledgeError:
        return unchecked("driver", f"what CUDA {cuda} needs is not known")
    if int(nvidia.driver.partition(".")[0]) >= floor:
        return _ptx(s, nvidia, profile, f"{nvidia.driver}{knows}; CUDA {cuda} needs {floor}")
    seen = f"{nvidia.driver} is too old: CUDA {cuda} needs {floor} or later"
    todo = f"install driver {floor} or later (https://www.nvidia.com/drivers), or choose an older "
    todo += "toolkit.version"
    if not any(_runs(gpu, nvidia, profile) for gpu in nvidia.cards):
        return warning("driver", f"{seen}; the build is for other cards than those here", todo)
    return problem("driver", seen, todo)


def _ptx(s: Surroundings, nvidia: Nvidia, profile: Profile, seen: str) -> Symptom:
    """A driver compiles PTX of its own CUDA and of older ones alone: cudaErrorUnsupportedPtxVersion
    (config/knowledge/toolkits.yaml, binary_rules).
    """
    made = profile.choice.toolkit.version
    if not (profile.choice.ptx and nvidia.cuda and made) or numbers(nvidia.cuda) >= numbers(made):
        return ok("driver", seen)
    return warning(
        "driver",
        f"{nvidia.driver} compiles PTX up to CUDA {nvidia.cuda}; PTX of CUDA {made} is no use here",
        "install a newer driver, or leave target.ptx at false",
    )
