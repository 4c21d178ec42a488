"""Toolkit, cards, driver, and whether what is built can run on what is here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tasks.core.errors import KnowledgeError
from tasks.core.formatting.size import format_size
from tasks.core.model import Arch
from tasks.doctor.symptom import (
    CheckResult,
    format_command,
    report_ok,
    report_problem,
    report_unchecked,
    report_warning,
)
from tasks.knowledge.archs import MachineCode
from tasks.knowledge.covers import can_run_code
from tasks.knowledge.toolkits import find_driver_floor
from tasks.knowledge.versions import parse_major_minor
from tasks.planning.decide import resolve_without_suggestions
from tasks.planning.suggestions.trial import WhatIf

if TYPE_CHECKING:
    from tasks.core.model import Gpu
    from tasks.doctor.host_facts import HostFacts, Tool
    from tasks.knowledge import Knowledge
    from tasks.knowledge.driver import NvidiaDriver
    from tasks.lock.profile import Profile

_ACCEPT_COMMAND = format_command("doit doctor --accept", "to plan from what is here now:")


def check_toolkit_and_gpus(
    s: HostFacts, profile: Profile | None, knowledge: Knowledge
) -> Iterator[CheckResult]:
    """toolkit, cards, targets, driver."""
    yield _check_toolkit(s, profile)
    if s.nvidia is None:
        yield from (report_unchecked(check) for check in ("cards", "targets", "driver"))
        return
    yield _check_gpus(s, s.nvidia, profile)
    yield _check_targets(s.nvidia, profile)
    yield _check_driver(s, s.nvidia, profile, knowledge)


def _check_toolkit(s: HostFacts, profile: Profile | None) -> CheckResult:
    if profile is None:
        here = ", ".join(f"{kit.version} at {kit.home}" for kit in s.host.toolkits)
        return report_ok("toolkit", here or "none installed")
    chosen = profile.choice.toolkit
    if chosen.provider in {"none", "pypi"}:
        packages = f"CUDA {chosen.version} comes as Python packages"
        return report_ok(
            "toolkit", packages if chosen.version else "a build for the CPU needs none"
        )
    return _check_installed_toolkit(s.nvcc, chosen.home, chosen.version)


def _check_installed_toolkit(nvcc: Tool | None, home: str, version: str) -> CheckResult:
    if nvcc is None:
        return report_unchecked("toolkit")
    if not nvcc.path:
        todo = "install it again, name another in toolkit.path, or,"
        return report_problem(
            "toolkit", f"no nvcc that runs at {home}", f"{todo} {_ACCEPT_COMMAND}"
        )
    seen = f"{nvcc.version} at {home}"
    if not nvcc.version.startswith(f"{version}."):
        return report_warning("toolkit", f"{seen}; planned was CUDA {version}", _ACCEPT_COMMAND)
    return report_ok("toolkit", seen)


def _check_gpus(s: HostFacts, nvidia: NvidiaDriver, profile: Profile | None) -> CheckResult:
    if nvidia.trouble or nvidia.lost:
        return _report_silent_gpus(s, nvidia, profile)
    if not nvidia.gpus:
        absent = "no NVIDIA card or no driver"
        return report_ok("cards", f"{absent}: builds work, checks on a card are not run")
    named = ", ".join(map(_format_gpu, nvidia.gpus))
    then = {gpu.capability for gpu in s.host.gpus}
    now = {gpu.capability for gpu in nvidia.gpus}
    if s.host.pinned and _has_auto_gpus(profile) and then != now:
        planned = ", ".join(sorted(then)) or "no card"
        return report_warning(
            "cards", f"{named}; this profile was planned for {planned}", _ACCEPT_COMMAND
        )
    return report_ok("cards", named)


def _has_auto_gpus(profile: Profile | None) -> bool:
    return profile is not None and profile.loaded.settings.target.gpus == "auto"


def _report_silent_gpus(s: HostFacts, nvidia: NvidiaDriver, profile: Profile | None) -> CheckResult:
    """A card that cannot be asked is no reason to build for another one."""
    if nvidia.trouble:
        seen = f"there is a driver, and its cards cannot be asked: {nvidia.trouble}"
    else:
        named = ", ".join(map(_format_gpu, nvidia.gpus))
        more = f"{nvidia.lost} more" if named else f"{nvidia.lost} here"
        seen = f"{named}; {more} that does not answer".removeprefix("; ")
    if "mismatch" in nvidia.trouble.lower():
        todo = format_command("sudo reboot", "restart: the driver was upgraded while it was in use")
    else:
        todo = format_command("nvidia-smi", "restart the machine, or see what is said here:")
    if _has_auto_gpus(profile) and not s.host.gpus and not nvidia.gpus:
        named = 'or name it, with target.gpus: ["RTX 4090"] for example'
        return report_problem("cards", f"{seen}; another card would be assumed", f"{todo}\n{named}")
    return report_warning("cards", seen, todo)


def _format_gpu(gpu: Gpu) -> str:
    memory = f", {format_size(gpu.memory_mib)}" if gpu.memory_mib else ""
    return f"{gpu.name} ({gpu.capability}{memory})"


def _check_targets(nvidia: NvidiaDriver, profile: Profile | None) -> CheckResult:
    if profile is None:
        return report_unchecked("targets", "the profile does not open")
    targets = profile.choice.targets
    if not targets:
        return report_ok("targets", f"no card is a target: {profile.choice.targets_why}")
    named = ", ".join(map(str, targets))
    if not nvidia.gpus:
        return report_ok("targets", f"{named}: {profile.choice.targets_why}")
    foreign = [gpu for gpu in nvidia.gpus if not _can_run_on_gpu(gpu, nvidia, profile)]
    if not foreign:
        return report_ok("targets", f"{named}, which the cards here can run")
    cards = " and ".join(sorted({f"{gpu.name} ({gpu.capability})" for gpu in foreign}))
    both = {*targets, *(Arch.parse_capability(gpu.capability) for gpu in foreign)}
    add = ", ".join(f'"{arch}"' for arch in sorted(both))
    todo = f"if it is meant for here, write target.gpus: [{add}]"
    if not _can_plan(profile, sorted(both)):
        todo = f"no known torch and CUDA support all of {add}: use another profile"
    return report_warning("targets", f"{named}: {cards} in this machine cannot run that", todo)


def _can_plan(profile: Profile, targets: list[Arch]) -> bool:
    trial = WhatIf(
        profile.loaded.settings, profile.host, profile.knowledge, resolve_without_suggestions
    )
    return trial.resolve_with(target={"gpus": tuple(map(str, targets))}) is not None


def _can_run_on_gpu(gpu: Gpu, nvidia: NvidiaDriver, profile: Profile) -> bool:
    targets = frozenset(profile.choice.targets)
    ptx = frozenset({max(targets)}) if profile.choice.ptx and targets else frozenset()
    try:
        return can_run_code(
            profile.knowledge,
            MachineCode(targets, ptx),
            Arch.parse_capability(gpu.capability),
            maker=profile.choice.cuda,
            driver=nvidia.cuda or None,
        )
    except KnowledgeError:
        return False


def _check_driver(
    s: HostFacts, nvidia: NvidiaDriver, profile: Profile | None, knowledge: Knowledge
) -> CheckResult:
    """One older than torch's CUDA needs starts, and then fails at the first kernel."""
    cuda = profile.choice.cuda if profile else None
    if not nvidia.driver:
        silent = report_unchecked("driver", "its version could not be asked")
        return silent if nvidia.trouble or nvidia.gpus else report_ok("driver", "none")
    knows = f", for CUDA up to {nvidia.cuda}" if nvidia.cuda else ""
    if profile is None or not cuda:
        return report_ok("driver", f"{nvidia.driver}{knows}")
    try:
        floor = find_driver_floor(knowledge, cuda)
    except KnowledgeError:
        return report_unchecked("driver", f"what CUDA {cuda} needs is not known")
    if int(nvidia.driver.partition(".")[0]) >= floor:
        return _check_ptx_support(
            s, nvidia, profile, f"{nvidia.driver}{knows}; CUDA {cuda} needs {floor}"
        )
    seen = f"{nvidia.driver} is too old: CUDA {cuda} needs {floor} or later"
    todo = f"install driver {floor} or later (https://www.nvidia.com/drivers), or choose an older "
    todo += "toolkit.version"
    if not any(_can_run_on_gpu(gpu, nvidia, profile) for gpu in nvidia.gpus):
        return report_warning(
            "driver", f"{seen}; the build is for other cards than those here", todo
        )
    return report_problem("driver", seen, todo)


def _check_ptx_support(
    s: HostFacts, nvidia: NvidiaDriver, profile: Profile, seen: str
) -> CheckResult:
    """A driver compiles PTX of its own CUDA and of older ones alone: cudaErrorUnsupportedPtxVersion
    (config/knowledge/toolkits.yaml, binary_rules).
    """
    made = profile.choice.toolkit.version
    if not (profile.choice.ptx and nvidia.cuda and made) or parse_major_minor(
        nvidia.cuda
    ) >= parse_major_minor(made):
        return report_ok("driver", seen)
    return report_warning(
        "driver",
        f"{nvidia.driver} compiles PTX up to CUDA {nvidia.cuda}; PTX of CUDA {made} is no use here",
        "install a newer driver, or leave target.ptx at false",
    )
